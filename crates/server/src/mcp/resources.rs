//! Sessions and fact sheets as resources: listing them page by page, and reading them.

use lookback_store::StoreError;
use rmcp::model::{Resource, ResourceTemplate};

use super::uri::Place;
use super::{Reach, ReadError, Server, sheets, transcript};

/// The number of sessions on a page of the list.
const PAGE: usize = 100;

impl Server {
    /// Returns a page of resources and the cursor of the next page. The page begins after the session that the cursor
    /// names.
    pub(super) async fn list(&self, cursor: Option<&str>) -> Result<(Vec<Resource>, Option<String>), StoreError> {
        let mut listed = if cursor.is_none() { self.sheets() } else { Vec::new() };
        let store = self.memory.store();
        let mut logs = match &self.reach {
            Reach::All => store.list("").await?,
            Reach::Below(prefix) => store.list(prefix).await?,
            Reach::Own => store.info(self.memory.session()).await?.into_iter().collect(),
        };
        logs.retain(|log| !log.name.is_derived() && cursor.is_none_or(|cursor| log.name.as_str() > cursor));
        let more = logs.len() > PAGE;
        logs.truncate(PAGE);
        let next = if more { logs.last().map(|log| log.name.to_string()) } else { None };
        listed.extend(logs.into_iter().map(|log| {
            let says = format!("The newest messages of the session; its log has {} entries", log.records);
            resource(&Place::Session(log.name.clone()), log.name.to_string(), says)
        }));
        Ok((listed, next))
    }

    /// Returns the fact sheets of the session and of the workspace.
    fn sheets(&self) -> Vec<Resource> {
        let (session, workspace) = (self.memory.session(), self.memory.workspace());
        let own = "The facts of the session, and those that it shares".to_owned();
        let shared = "The facts that all sessions of the workspace share".to_owned();
        vec![
            resource(&Place::Facts(session.clone()), format!("facts of {session}"), own),
            resource(&Place::Shared, format!("shared facts of {workspace}"), shared),
        ]
    }

    /// Returns the templates of addresses.
    pub(super) fn templates(&self) -> Vec<ResourceTemplate> {
        let own = (!self.takes_session()).then(|| self.memory.session());
        let says =
            "The messages of a session between two entries of its log, both included. Searches return such entries";
        vec![
            ResourceTemplate::new(Place::template(own), "messages").with_description(says).with_mime_type("text/plain"),
        ]
    }

    /// Reads a resource. Returns `None` if it does not exist, or if clients may not see it.
    pub(super) async fn read(&self, place: &Place) -> Result<Option<String>, ReadError> {
        let store = self.memory.store();
        match place {
            Place::Session(name) if self.shows(name) => transcript::read(store, name, None).await,
            Place::Messages(name, span) if self.shows(name) => transcript::read(store, name, Some(span)).await,
            Place::Facts(name) if self.shows(name) => Ok(sheets::find(self, name).await?),
            Place::Shared => Ok(Some(sheets::shared(&self.memory).await?)),
            Place::Session(_) | Place::Messages(..) | Place::Facts(_) => Ok(None),
        }
    }
}

fn resource(place: &Place, name: String, description: String) -> Resource {
    Resource::new(place.to_string(), name).with_description(description).with_mime_type("text/plain")
}
