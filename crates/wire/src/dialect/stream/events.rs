//! Splits bytes into server-sent events, according to the HTML standard.

/// The bytes of an event whose end has not arrived.
#[derive(Debug, Default)]
pub(super) struct Events {
    line: Vec<u8>,
    data: String,
    has_data: bool,
    /// Whether the last byte was a carriage return. A line feed after it belongs to the same line break.
    after_return: bool,
    is_started: bool,
}

impl Events {
    /// Reads the next bytes, and returns the data of the events that end in them.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        for byte in bytes {
            match byte {
                b'\n' if self.after_return => self.after_return = false,
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    found.extend(self.end_line());
                }
                byte => {
                    self.after_return = false;
                    self.line.push(*byte);
                }
            }
        }
        found
    }

    /// Returns the data of an event if this line ends one.
    fn end_line(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let line = if self.is_started { &line } else { line.trim_start_matches('\u{feff}') };
        self.is_started = true;
        if line.is_empty() {
            return std::mem::take(&mut self.has_data).then(|| std::mem::take(&mut self.data));
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        if field == "data" {
            if std::mem::replace(&mut self.has_data, true) {
                self.data.push('\n');
            }
            self.data.push_str(value.strip_prefix(' ').unwrap_or(value));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_however_they_are_divided() {
        let text =
            "\u{feff}: comment\r\ndata: a\r\ndata:b\r\n\r\nevent: x\ndata: {\"n\": \"é\"}\n\nid\n\ndata\r\rdata: cut";
        let expected = ["a\nb", "{\"n\": \"é\"}", ""];
        for size in 1..text.len() {
            let mut events = Events::default();
            let found: Vec<_> = text.as_bytes().chunks(size).flat_map(|bytes| events.read(bytes)).collect();
            assert_eq!(found, expected, "{size}");
        }
    }
}
