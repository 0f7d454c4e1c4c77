"""The coding agents, each as its documentation says that it is pointed at another address."""

AGENTS = {}
