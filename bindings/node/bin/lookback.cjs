#!/usr/bin/env node
// The command line, which is in the native part of the package.
'use strict'

process.exitCode = require('../dist/native.cjs').commandLine(['lookback', ...process.argv.slice(2)])
