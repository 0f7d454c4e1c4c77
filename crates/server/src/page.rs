//! Checks of the page that a request comes from, based on the headers of browsers.

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue};

/// Returns whether a request comes from a page of another site. `may_follow` allows links from such a page.
///
/// Programs other than browsers do not send these headers, and count as no page.
pub(crate) fn is_foreign(headers: &HeaderMap, may_follow: bool) -> bool {
    let host = headers.get(HOST).map(HeaderValue::as_bytes).unwrap_or_default();
    let is_own = |origin: &HeaderValue| {
        let origin = origin.as_bytes();
        let name = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
        name == Some(host)
    };
    let fetch = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_elsewhere = matches!(fetch("sec-fetch-site"), Some("cross-site" | "same-site"));
    let is_whole_page = fetch("sec-fetch-dest").is_none_or(|dest| dest == "document");
    let is_followed = may_follow && is_whole_page && fetch("sec-fetch-mode") == Some("navigate");
    headers.get_all(ORIGIN).iter().any(|origin| !is_own(origin)) || (is_elsewhere && !is_followed)
}

/// Returns the request's origin, if it is the only one and is in the list.
pub(crate) fn named<'a>(headers: &'a HeaderMap, origins: &[String]) -> Option<&'a HeaderValue> {
    let mut given = headers.get_all(ORIGIN).iter();
    let origin = given.next()?;
    if given.next().is_some() {
        return None;
    }
    let is_it = |named: &String| origin.as_bytes().eq_ignore_ascii_case(named.as_bytes());
    origins.iter().any(is_it).then_some(origin)
}

/// Returns whether a text is an origin as browsers write it: a scheme and a host, and a port if it is not the default.
pub(crate) fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else { return false };
    let is_scheme = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let is_host = host.bytes().all(|byte| byte.is_ascii_graphic() && !b"/\\?#@*,".contains(&byte));
    !scheme.is_empty() && is_scheme && !host.is_empty() && is_host
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("localhost:8787"));
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_page_of_another_site_is_known_by_what_browsers_say() {
        let cross = ("sec-fetch-site", "cross-site");
        let link = [cross, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        for own in
            [&[("accept", "*/*")][..], &[("origin", "http://localhost:8787")], &[("sec-fetch-site", "same-origin")]]
        {
            assert!(!is_foreign(&headers(own), false), "{own:?}");
        }
        for foreign in [
            &[("origin", "https://evil.example")][..],
            &[("origin", "http://localhost:3000")],
            &[("origin", "null")],
            &[("origin", "http://localhost:8787"), ("origin", "https://evil.example")],
            &[cross],
            &[("sec-fetch-site", "same-site")],
            &[cross, ("sec-fetch-mode", "no-cors")],
            &[cross, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")],
        ] {
            assert!(is_foreign(&headers(foreign), true), "{foreign:?}");
        }
        assert!(is_foreign(&headers(&link), false) && !is_foreign(&headers(&link), true));
    }

    #[test]
    fn an_origin_is_named_as_browsers_write_it() {
        for origin in ["https://app.example", "http://localhost:3000", "chrome-extension://abc", "http://[::1]:3000"] {
            assert!(is_origin(origin), "{origin}");
            assert!(named(&headers(&[("origin", origin)]), &[origin.to_owned()]).is_some(), "{origin}");
        }
        for wrong in ["", "null", "*", "app.example", "https://", "https://app.example/", "https://*.example", "://a"] {
            assert!(!is_origin(wrong), "{wrong}");
        }
        let named =
            |origin: &str| named(&headers(&[("origin", origin)]), &["https://app.example".to_owned()]).is_some();
        assert!(named("https://App.example"));
        assert!(!named("https://app.example.evil.example") && !named("http://app.example") && !named("null"));
    }
}
