//! Splits bytes into server-sent events, according to the HTML standard.

/// The bytes of an event whose end has not arrived.
#[derive(Debug, Default)]
pub(in crate::dialect) struct Events {
    /// All bytes since the event before.
    raw: Vec<u8>,
    /// The start of the current line in `raw`.
    line: usize,
    data: String,
    has_data: bool,
    /// Whether the last byte was a carriage return. A line feed after it belongs to the same line break.
    after_return: bool,
    is_started: bool,
}

/// A server-sent event.
#[derive(Debug)]
pub(in crate::dialect) struct Event {
    /// Its bytes, including the blank line at its end.
    pub(in crate::dialect) raw: Vec<u8>,
    /// Its data, if it has any. A comment has none.
    pub(in crate::dialect) data: Option<String>,
}

impl Events {
    /// Reads the next bytes, and returns the events that end in them.
    pub(in crate::dialect) fn read(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut found = Vec::new();
        let mut bytes = bytes.iter().peekable();
        while let Some(byte) = bytes.next() {
            let is_rest = *byte == b'\n' && self.after_return;
            let ends = matches!(byte, b'\n' | b'\r') && !is_rest;
            self.after_return = *byte == b'\r';
            if ends {
                let is_over = self.end_line();
                self.raw.push(*byte);
                self.line = self.raw.len();
                if is_over {
                    // If the line feed arrives later, it begins the next event's bytes.
                    self.raw.extend(bytes.next_if(|next| *byte == b'\r' && **next == b'\n'));
                    self.after_return &= self.raw.ends_with(b"\r");
                    self.line = 0;
                    let data = std::mem::take(&mut self.has_data).then(|| std::mem::take(&mut self.data));
                    found.push(Event { raw: std::mem::take(&mut self.raw), data });
                }
            } else {
                self.raw.push(*byte);
                if is_rest {
                    self.line = self.raw.len();
                }
            }
        }
        found
    }

    /// Returns the number of bytes after the last event.
    pub(in crate::dialect) fn length(&self) -> usize {
        self.raw.len()
    }

    /// Returns the bytes after the last event.
    pub(in crate::dialect) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(self).raw
    }

    /// Reads the line that ends here. Returns whether it ends an event.
    fn end_line(&mut self) -> bool {
        let line = String::from_utf8_lossy(self.raw.get(self.line..).unwrap_or_default());
        let line = if self.is_started { &line } else { line.trim_start_matches('\u{feff}') };
        self.is_started = true;
        if line.is_empty() {
            return true;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        if field == "data" {
            if std::mem::replace(&mut self.has_data, true) {
                self.data.push('\n');
            }
            self.data.push_str(value.strip_prefix(' ').unwrap_or(value));
        }
        false
    }
}

impl Event {
    /// Removes the line feed that belongs to the end of the event before, if it arrived late. Returns it.
    pub(in crate::dialect) fn late_line_feed(&mut self) -> Option<u8> {
        let is_late = self.raw.len() > 1 && self.raw.starts_with(b"\n");
        is_late.then(|| self.raw.remove(0))
    }

    /// Returns the bytes of this event with other data.
    pub(in crate::dialect) fn with_data(&self, data: &str) -> Vec<u8> {
        let text = String::from_utf8_lossy(&self.raw);
        let lines = text.split(['\n', '\r']).filter(|line| !line.is_empty() && !is_data(line));
        let mut out: String = lines.flat_map(|line| [line, "\n"]).collect();
        push_data(&mut out, data);
        out.into_bytes()
    }
}

/// Appends the data of an event, and the end of the event. Each line of the data needs its own field.
pub(in crate::dialect) fn push_data(out: &mut String, data: &str) {
    for line in data.lines() {
        out.push_str("data: ");
        out.push_str(line);
        out.push('\n');
    }
    out.push('\n');
}

fn is_data(line: &str) -> bool {
    line.trim_start_matches('\u{feff}').split(':').next() == Some("data")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_however_they_are_divided() {
        let text =
            "\u{feff}: comment\r\ndata: a\r\ndata:b\r\n\r\nevent: x\ndata: {\"n\": \"é\"}\n\nid\n\ndata\r\rdata: cut";
        let expected = [Some("a\nb"), Some("{\"n\": \"é\"}"), None, Some("")];
        for size in 1..text.len() {
            let mut events = Events::default();
            let found: Vec<_> = text.as_bytes().chunks(size).flat_map(|bytes| events.read(bytes)).collect();
            assert_eq!(found.iter().map(|event| event.data.as_deref()).collect::<Vec<_>>(), expected, "{size}");
            let mut all = found.into_iter().flat_map(|event| event.raw).collect::<Vec<_>>();
            all.extend(events.rest());
            assert_eq!(String::from_utf8(all).unwrap(), text, "{size}");
        }
    }

    #[test]
    fn other_data_keeps_the_other_lines() {
        let mut events = Events::default();
        let found = events.read(b": hi\r\nevent: x\r\ndata: {\r\ndata: }\r\nid: 1\r\n\r\n");
        assert_eq!(found[0].with_data("[]"), b": hi\nevent: x\nid: 1\ndata: []\n\n");
    }
}
