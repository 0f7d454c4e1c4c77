//! `lookback inspect`: serves pages that show what a model saw of the sessions in a store.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use lookback_location::Location;

use lookback_server::inspect::{Inspector, serve};
use lookback_server::{ConnectionLimits, ListenOptions};

use crate::args::{InspectArgs, StoreArg};
use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::store::{self, Opening};
use crate::{input, location, output};

/// Returns the store that the option or the environment names, that of this folder, or else that of hooks.
fn place(named: Option<PathBuf>) -> Result<Location, Failure> {
    if let Some(named) = StoreArg::new(named).named()? {
        return Ok(named);
    }
    let here = PathBuf::from(StoreArg::DEFAULT);
    let of_user = location::user_store().filter(|of_user| !here.exists() && of_user.exists());
    Ok(Location::Sqlite(of_user.unwrap_or(here)))
}

pub(crate) fn run(args: InspectArgs) -> Result<ExitCode, Failure> {
    let price = input::price(&args.prices.name)?;
    let place = place(args.store)?;
    let store = store::open(&place, Opening::Existing)?;
    let given =
        args.token_env.map(|variable| input::token(variable.clone()).map(|token| (variable, token))).transpose()?;
    let workspace = args.workspace.to_string();
    let mut inspector = Inspector::new(store, place.to_string(), price).with_workspaces(move |_| workspace.clone());
    if args.edit {
        inspector = inspector.with_edits();
    }
    let entry = given.as_ref().map(|(variable, _)| format!("?token=${variable}")).unwrap_or_default();
    let token = given.map(|(_, token)| token);
    let options =
        ListenOptions { address: args.http, token, hosts: args.allow_host, limits: ConnectionLimits::default() };
    serve(inspector, options, |mut address| {
        // Browsers cannot open the unspecified address.
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        output::message(&format!("open http://{address}/{entry} in a browser"));
    })?;
    Ok(ExitCode::SUCCESS)
}
