//! `lookback serve`: a gateway in front of models.

mod explain;

use crate::exit::ExitCode;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use lookback_engine::policy::Policy;
use lookback_location::Location;
use lookback_server::gateway::{Config, ConfigError, Event, Gateway, Habit, Key};
use lookback_store::Tenant;
use lookback_store::{Durability, MemoryStore};

use crate::args::{LogForm, ServeArgs, StoreArg};
use crate::failure::Failure;
use crate::location;
use crate::store::{self, Opening};
use crate::{input, output};

/// The default port of the gateway.
const PORT: u16 = 8787;

pub(crate) fn run(args: ServeArgs) -> Result<ExitCode, Failure> {
    if let Some(name) = args.new_key {
        return new_key(name);
    }
    if let Some(model) = &args.explain_policy {
        let file = File::read(&args)?;
        let config = file.config(&args)?;
        let policy = policy(&args, &config, &file)?;
        let watches = config.shadow;
        let gateway = Gateway::new(MemoryStore::new()).with_config(config).with_policy(policy);
        output::result(&explain::explain(&gateway, watches, model))?;
        return Ok(ExitCode::SUCCESS);
    }
    let (config, policy) = read(&args)?;
    if args.check {
        let place = store_of(&args, &config)?;
        store::check(&place)?;
        output::line(&format!(
            "the configuration is valid: {}, {}, sessions in {place}, listens on {}{}",
            count(config.upstreams.len(), "upstream"),
            count(config.keys.len(), "key"),
            listen(&config),
            if config.shadow { ", sends everything as it comes" } else { "" },
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    // Written entries survive a crash of the process, and the client has a copy of everything.
    let store = store::open(&store_of(&args, &config)?, Opening::Made(Durability::System))?;
    let address = listen(&config);
    #[cfg(feature = "otel")]
    let _exporting = crate::telemetry::begin().map_err(Failure::Telemetry)?;
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let form = args.log;
    let args = Arc::new(args);
    let gateway = Gateway::new(store)
        .with_config(config)
        .with_policy(policy)
        .with_log(move |event| log_event(form, event))
        .with_reload(move || match read(&args) {
            Ok(read) => Some(read),
            Err(failure) => {
                output::error(&failure);
                None
            }
        });
    gateway.serve(address, |address| output::message(&format!("listening on {scheme}://{address}")))?;
    Ok(ExitCode::SUCCESS)
}

/// The configuration file, if there is one.
struct File<'a>(Option<(&'a Path, String)>);

impl<'a> File<'a> {
    fn read(args: &'a ServeArgs) -> Result<File<'a>, Failure> {
        let file = args.config.as_deref().map(|path| Ok::<_, Failure>((path, input::text(path)?)));
        Ok(File(file.transpose()?))
    }

    /// Returns the configuration. The command line overrides the environment, which overrides the file.
    fn config(&self, args: &ServeArgs) -> Result<Config, Failure> {
        let mut config = match &self.0 {
            Some((path, text)) => {
                let wrong = |fault| Failure::Config { place: input::place(path), fault };
                let config = Config::from_toml(text).map_err(wrong)?;
                config.within(path.parent().unwrap_or(Path::new("")))
            }
            None => Config::default(),
        };
        if !args.upstream.is_empty() {
            let parsed = args.upstream.iter().map(|text| text.parse());
            config.upstreams = parsed.collect::<Result<_, _>>().map_err(Failure::Upstream)?;
        }
        config.listen = args.listen.or(config.listen);
        config.holdout = args.holdout.unwrap_or(config.holdout);
        config.shadow |= args.shadow;
        if !args.add.is_empty() {
            config.adds = Some(args.add.iter().copied().flatten().collect());
        }
        if !args.allow_host.is_empty() {
            config.hosts = args.allow_host.clone();
        }
        if !args.allow_origin.is_empty() {
            config.origins = args.allow_origin.clone();
        }
        Ok(config)
    }
}

/// Reads the configuration and the policy.
fn read(args: &ServeArgs) -> Result<(Config, Policy), Failure> {
    let file = File::read(args)?;
    let config = file.config(args)?;
    config.check().and_then(|()| config.check_address(listen(&config))).map_err(|fault| match &file.0 {
        Some((path, text)) if !is_option(args, &fault) => {
            Failure::Config { place: place(path, fault.line_in(text)), fault }
        }
        _ => Failure::Serve(fault.into()),
    })?;
    let policy = policy(args, &config, &file)?;
    Ok((config, policy))
}

/// Reads the policy. The command line overrides the environment, which overrides the file.
fn policy(args: &ServeArgs, config: &Config, file: &File<'_>) -> Result<Policy, Failure> {
    match (&args.policy, &config.policy) {
        (Some(policy), _) => input::policy(policy, &[]),
        (None, Some(policy)) => input::policy(policy, &[]).map_err(|failure| match (failure, &file.0) {
            (Failure::Policy { policy, fault }, Some((path, text))) => {
                let place = place(path, Config::line_of(text, "policy"));
                Failure::ConfigPolicy { place, policy, fault: Box::new(fault) }
            }
            (failure, _) => failure,
        }),
        (None, None) => Ok(Gateway::policy()),
    }
}

/// Returns whether a mistake is in a command-line option, which overrides the file.
fn is_option(args: &ServeArgs, fault: &ConfigError) -> bool {
    match fault.field() {
        Some("holdout") => args.holdout.is_some(),
        Some("hosts") => !args.allow_host.is_empty(),
        Some("origins") => !args.allow_origin.is_empty(),
        Some("upstream") => !args.upstream.is_empty(),
        _ => false,
    }
}

/// Returns the name of a file in messages, with a line number if there is one.
fn place(path: &Path, line: Option<usize>) -> String {
    let path = input::place(path);
    line.map_or(path.clone(), |line| format!("{path}: line {line}"))
}

/// Returns the store that the command line, the environment or the file names, in this order, or the default.
fn store_of(args: &ServeArgs, config: &Config) -> Result<Location, Failure> {
    let in_file = || config.store.as_ref().map(|text| location::location(text.into())).transpose();
    let named = match args.store.named()? {
        Some(named) => Some(named),
        None => in_file()?,
    };
    Ok(named.unwrap_or_else(|| Location::Sqlite(StoreArg::DEFAULT.into())))
}

fn listen(config: &Config) -> SocketAddr {
    config.listen.unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)))
}

fn count(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

fn new_key(name: Tenant) -> Result<ExitCode, Failure> {
    let (secret, key) = Key::generate(name)?;
    output::message(&format!("the key of {}, which is not shown again: {secret}", output::plain(key.name())));
    output::result(&key.to_toml())?;
    Ok(ExitCode::SUCCESS)
}

/// Returns a habit that costs money, with its cure.
fn advice(habit: Habit) -> &'static str {
    match habit {
        Habit::ChangingPreamble => {
            "the system prompt or the tools changed with each of the last 3 requests, so the provider cannot cache them: \
             put what changes, such as the time, into the newest message"
        }
        Habit::NoCacheMarkers => {
            "the provider cached nothing of the last 3 requests, because they have no cache markers: set them in the \
             client, or use --add cache-markers"
        }
        _ => "it has a habit that costs money",
    }
}

/// Writes a line of the log.
fn log_event(form: LogForm, event: &Event) {
    match (form, event) {
        (LogForm::Json, event) => output::json(event).iter().for_each(|line| output::message(line)),
        (LogForm::Failures, Event::Call { .. } | Event::Reloaded) => {}
        (_, Event::Failure { what, .. }) => output::warning(what),
        (_, Event::Advice { session, habit, .. }) => {
            output::warning(&format!("{}: {}", output::plain(session), advice(*habit)));
        }
        (_, event) => output::message(&output::plain(&event.to_string())),
    }
}
