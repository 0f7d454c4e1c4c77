//! The language of a text, guessed from its letters and frequent words, to detect summaries in another language.

/// A text with less weight, in Latin letters, is too short to recognize its script.
const SHORT: u64 = 60;
/// The fewest frequent words of the main language in a source and in a summary, for comparing their languages.
const SOURCE_WORDS: u64 = 20;
const SUMMARY_WORDS: u64 = 6;
/// A summary must have this many times more frequent words of the new language than of the old one.
const CLEARLY: u64 = 3;
/// A source hardly has a script or language if that is at most one in this many of its letters or words.
const HARDLY: u64 = 20;
/// The most bytes of a frequent word.
const LONGEST_WORD: usize = 8;

const LATIN: &str = "Latin letters";

/// A script: its name, the weight of one of its letters in Latin letters, and the ranges of its letters.
type Script = (&'static str, u64, &'static [(char, char)]);

/// The scripts that are distinguished. Chinese and Japanese are one, because they share characters.
const SCRIPTS: [Script; 9] = [
    (LATIN, 1, &[('A', 'Z'), ('a', 'z'), ('\u{c0}', '\u{24f}'), ('\u{1e00}', '\u{1eff}')]),
    (
        "Chinese or Japanese",
        3,
        &[
            ('\u{3040}', '\u{30ff}'),
            ('\u{3400}', '\u{4dbf}'),
            ('\u{4e00}', '\u{9fff}'),
            ('\u{f900}', '\u{faff}'),
            ('\u{20000}', '\u{3ffff}'),
        ],
    ),
    ("Korean", 3, &[('\u{1100}', '\u{11ff}'), ('\u{ac00}', '\u{d7af}')]),
    ("Cyrillic letters", 1, &[('\u{400}', '\u{52f}')]),
    ("Greek", 1, &[('\u{370}', '\u{3ff}'), ('\u{1f00}', '\u{1fff}')]),
    ("Arabic letters", 1, &[('\u{600}', '\u{6ff}'), ('\u{750}', '\u{77f}')]),
    ("Hebrew", 1, &[('\u{590}', '\u{5ff}')]),
    ("Indic letters", 1, &[('\u{900}', '\u{dff}')]),
    ("Thai", 1, &[('\u{e00}', '\u{e7f}')]),
];

/// Frequent words of languages in Latin letters, chosen to be rare in the other languages and in code.
const WORDS: [(&str, &[&str]); 7] = [
    (
        "English",
        &["the", "and", "that", "with", "this", "are", "from", "which", "been", "have", "were", "should", "they"],
    ),
    (
        "German",
        &["der", "und", "ist", "nicht", "das", "ein", "eine", "mit", "auf", "für", "wird", "auch", "wurde", "den"],
    ),
    ("French", &["les", "une", "dans", "pour", "qui", "avec", "sont", "pas", "sur", "cette", "été", "aux", "nous"]),
    (
        "Spanish",
        &["los", "las", "una", "por", "para", "está", "pero", "más", "como", "fue", "esta", "también", "desde"],
    ),
    (
        "Portuguese",
        &["não", "uma", "foi", "são", "pelo", "dos", "das", "também", "para", "como", "está", "mas", "isso"],
    ),
    ("Italian", &["il", "che", "una", "sono", "della", "nel", "gli", "alla", "anche", "è", "questo", "delle", "stato"]),
    ("Dutch", &["het", "een", "niet", "voor", "zijn", "wordt", "met", "aan", "ook", "naar", "deze", "maar", "werd"]),
];

/// The languages of a summary and its source, if they differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OtherLanguage {
    /// The language of the messages of people and the model, or the name of its script.
    pub source: &'static str,
    /// The language of the summary, or the name of its script.
    pub summary: &'static str,
}

/// The weight of letters of each script, and the number of frequent words of each language, in a text.
#[derive(Default)]
pub(super) struct Tally {
    letters: [u64; SCRIPTS.len()],
    words: [u64; WORDS.len()],
}

impl Tally {
    pub(super) fn from_text(text: &str) -> Tally {
        let mut tally = Tally::default();
        tally.add(text);
        tally
    }

    /// Adds a text. Code, paths and names are ignored, because they are in Latin letters in every language.
    pub(super) fn add(&mut self, text: &str) {
        let is_code = |chunk: &str| {
            let mark = |sign: char| sign.is_ascii_digit() || "_/\\{}<>=();[]|$#@".contains(sign);
            chunk.is_ascii() && chunk.contains(mark)
        };
        for chunk in text.split_whitespace().filter(|chunk| !is_code(chunk)) {
            for letter in chunk.chars() {
                let has =
                    |ranges: &[(char, char)]| ranges.iter().any(|(first, last)| (*first..=*last).contains(&letter));
                let mut scripts = SCRIPTS.iter().zip(&mut self.letters);
                if let Some(((_, weight, _), letters)) = scripts.find(|((_, _, ranges), _)| has(ranges)) {
                    *letters += weight;
                }
            }
            let word = chunk.trim_matches(|sign: char| !sign.is_alphabetic());
            if word.len() <= LONGEST_WORD {
                let word = word.to_lowercase();
                for ((_, frequent), words) in WORDS.iter().zip(&mut self.words) {
                    *words += u64::from(frequent.contains(&word.as_str()));
                }
            }
        }
    }

    /// Returns the main language of the text, or the name of its script if the language is unknown. `None` if no script
    /// has more than half of the letters.
    fn main(&self) -> Option<&'static str> {
        let (most, script) = self.letters.iter().zip(&SCRIPTS).map(|(letters, (name, ..))| (*letters, *name)).max()?;
        if most * 2 <= self.total() {
            return None;
        }
        let (hits, language) = self.words.iter().zip(&WORDS).map(|(words, (name, _))| (*words, *name)).max()?;
        Some(if script == LATIN && hits > 0 { language } else { script })
    }

    fn total(&self) -> u64 {
        self.letters.iter().sum()
    }
}

/// Whether a text is mainly in a language. The language has the same name as in [`OtherLanguage`].
pub(crate) fn is_in(text: &str, language: &str) -> bool {
    Tally::from_text(text).main() == Some(language)
}

/// Returns how the language of a summary differs from that of its source, if it clearly does.
pub(super) fn other(source: &Tally, summary: &Tally) -> Option<OtherLanguage> {
    let (before, after) = (source.total(), summary.total());
    if before < SHORT || after < SHORT {
        return None;
    }
    // A script that the source hardly has is the main one now, or the source's main script is almost gone.
    let mut scripts = source.letters.iter().zip(&summary.letters);
    let changed = scripts.any(|(old, new)| {
        let came = new * 2 >= after && old * HARDLY <= before;
        let went = old * 5 >= before * 3 && new * 10 <= after;
        came || went
    });
    if changed || other_words(source, summary) {
        let differs = OtherLanguage { source: source.main()?, summary: summary.main().unwrap_or("another language") };
        return Some(differs).filter(|differs| differs.source != differs.summary);
    }
    None
}

/// Whether the frequent words of the summary are those of another language.
fn other_words(source: &Tally, summary: &Tally) -> bool {
    let most = |words: &[u64; WORDS.len()]| (0..).zip(words).map(|(language, hits)| (*hits, language)).max();
    let hits = |words: &[u64; WORDS.len()], language: usize| words.get(language).copied().unwrap_or_default();
    let (Some((before, old)), Some((after, new))) = (most(&source.words), most(&summary.words)) else { return false };
    old != new
        && before >= SOURCE_WORDS
        && after >= SUMMARY_WORDS
        && after >= CLEARLY * hits(&summary.words, old)
        && hits(&source.words, new) * HARDLY <= before
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGLISH: &str =
        "The server that they moved should have been stopped, and the ports were closed with this rule. ";
    const GERMAN: &str = "Der Server wurde auf einen anderen Port gelegt, und das ist nicht der, den wir wollten. ";
    const CHINESE: &str =
        "服务器已经移到另一个端口，我们还需要更新文档，然后再运行一次所有的测试。请不要修改配置文件里的其他选项。";

    fn change(source: &str, summary: &str) -> Option<(&'static str, &'static str)> {
        let other = other(&Tally::from_text(&source.repeat(5)), &Tally::from_text(&summary.repeat(2)));
        other.map(|other| (other.source, other.summary))
    }

    #[test]
    fn another_language_is_noticed() {
        assert_eq!(change(ENGLISH, GERMAN), Some(("English", "German")));
        assert_eq!(change(GERMAN, ENGLISH), Some(("German", "English")));
        assert_eq!(change(ENGLISH, CHINESE), Some(("English", "Chinese or Japanese")));
        assert_eq!(change(CHINESE, ENGLISH), Some(("Chinese or Japanese", "English")));
    }

    #[test]
    fn the_same_language_and_mixed_ones_are_no_change() {
        for text in [ENGLISH, GERMAN, CHINESE] {
            assert_eq!(change(text, text), None, "{text}");
            let mixed = format!("{text}{ENGLISH}{CHINESE}{GERMAN}");
            assert_eq!(change(&mixed, text), None, "{text}");
        }
        // Names and paths are in Latin letters in every language.
        assert_eq!(change(CHINESE, &format!("{CHINESE} src/main.rs SummaryTask::new read_file")), None);
        assert_eq!(change(ENGLISH, "短"), None, "too short to tell");
    }

    #[test]
    fn a_line_is_in_the_language_of_its_words() {
        assert!(is_in(GERMAN, "German") && !is_in(GERMAN, "English"));
        assert!(is_in(CHINESE, "Chinese or Japanese") && !is_in("", "English"));
    }
}
