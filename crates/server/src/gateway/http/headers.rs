//! Headers: reading them, and removing those that are not passed on.

use axum::http::header::{ACCEPT_ENCODING, CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use lookback_wire::dialect::Dialect;

/// The prefix of Lookback's own headers.
pub(crate) const OWN: &str = "x-lookback-";

/// The header with a key of the gateway.
pub(crate) const KEY: &str = "x-lookback-key";
/// The header that names an upstream of the configuration.
pub(crate) const UPSTREAM: &str = "x-lookback-upstream";

/// Returns the headers in which clients send keys of providers.
pub(crate) fn credentials() -> impl Iterator<Item = &'static str> {
    // Azure has a header of its own.
    Dialect::ALL.into_iter().map(|dialect| dialect.key_header().0).chain(["api-key"])
}

/// Hop-by-hop headers, which belong to a single connection.
const OF_CONNECTION: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
];

/// Returns the dialect of a header that only one provider uses.
pub(crate) fn dialect(headers: &HeaderMap) -> Option<Dialect> {
    Dialect::from_headers(|name| headers.contains_key(name))
}

/// Returns a header as text.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().filter(|value| !value.is_empty())
}

/// Returns all headers with a name as one comma-separated list.
pub(crate) fn list(headers: &HeaderMap, name: &str) -> String {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect::<Vec<_>>().join(",")
}

/// Removes hop-by-hop headers and Lookback's own headers. All other headers stay unchanged.
pub(crate) fn to_pass_on(headers: &mut HeaderMap) {
    let named = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named: Vec<HeaderName> =
        named.flat_map(|list| list.split(',')).filter_map(|name| name.trim().parse().ok()).collect();
    named.iter().for_each(|name| drop(headers.remove(name)));
    OF_CONNECTION.into_iter().for_each(|name| drop(headers.remove(name)));
    // The framing of a message is up to each connection.
    headers.remove("transfer-encoding");
    let own: Vec<HeaderName> = headers.keys().filter(|name| name.as_str().starts_with(OWN)).cloned().collect();
    own.iter().for_each(|name| drop(headers.remove(name)));
    headers.remove(HOST);
}

/// Returns whether a request asks to become a WebSocket. Other upgrades, such as to HTTP/2, may be ignored.
pub(crate) fn is_websocket(headers: &HeaderMap) -> bool {
    let names = |name: HeaderName, word: &str| {
        let lists = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        lists.flat_map(|list| list.split(',')).any(|name| name.trim().eq_ignore_ascii_case(word))
    };
    names(UPGRADE, "websocket") && names(CONNECTION, "upgrade")
}

/// Returns the credential of a request: the first header with a key, or the key in the query. It is only ever hashed.
pub(crate) fn credential<'a>(headers: &'a HeaderMap, query: Option<&'a str>) -> &'a [u8] {
    let in_header = credentials().find_map(|name| headers.get(name)).map(|value| value.as_bytes());
    let in_query = || query?.split('&').find_map(|pair| pair.strip_prefix("key=")).map(str::as_bytes);
    in_header.or_else(in_query).unwrap_or_default()
}

/// Removes the accepted encodings that cannot be decoded piece by piece.
pub(crate) fn to_read_the_answer(headers: &mut HeaderMap) {
    let Some(accepted) = text(headers, ACCEPT_ENCODING.as_str()) else { return };
    let can_be_read = |encoding: &&str| !matches!(encoding.split(';').next().map(str::trim), Some("zstd" | "*"));
    let left: Vec<&str> = accepted.split(',').filter(can_be_read).collect();
    if let Ok(left) = HeaderValue::from_str(left.join(",").trim()) {
        headers.insert(ACCEPT_ENCODING, left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_a_connection_is_not_passed_on() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "keep-alive, X-Mine"),
            ("x-mine", "1"),
            ("host", "gateway"),
            ("x-lookback-session", "a"),
            ("authorization", "Bearer k"),
            ("anthropic-beta", "a,b"),
            ("transfer-encoding", "chunked"),
        ] {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        to_pass_on(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["anthropic-beta", "authorization"]);
    }

    #[test]
    fn an_answer_is_not_asked_for_in_an_encoding_that_cannot_be_read() {
        for (asked, left) in
            [("gzip, deflate, br, zstd", "gzip, deflate, br"), ("zstd;q=1.0, *;q=0.1", ""), ("gzip", "gzip")]
        {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, asked.parse().unwrap());
            to_read_the_answer(&mut headers);
            assert_eq!(headers[ACCEPT_ENCODING], left);
        }
    }
}
