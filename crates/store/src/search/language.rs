//! Languages: detects the language of a text, its function words, and the common stem of a word's forms.
//!
//! A text and a query must meet in the same form, although a query of two words does not reveal its language. So a word
//! has up to two terms. The first depends on the word alone: its stem in the default language of its script, which for
//! Latin is English. Every text has it, and every query looks for it. The second is the stem in the language of the
//! text, marked with that language. Only texts with many function words of the language have it. A query looks for it
//! in the query's own language, or in all languages if the query's is unknown.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::LazyLock;

use snowball_stemmers_rs::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;

use super::words::folded;

/// A language of Latin script other than English: its index in [`LATIN`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Language(usize);

/// How many words of a text are inspected to detect its language.
const LOOKED_AT: usize = 400;
/// How many function words of a language a text must have at least, and their minimum share of its words: one in this
/// many.
const FEWEST: u32 = 2;
const ONE_IN: u32 = 5;
/// The most characters of a word that is stemmed. Longer ones are not words of a language.
const LONGEST: usize = 40;
/// How many stems each thread remembers.
const MOST_KNOWN: usize = 1 << 14;

/// A language: its code, its stemmer, and its function words, folded.
type Known = (&'static str, Algorithm, &'static str);

/// English, then the other detectable languages of Latin script.
const LATIN: [Known; 16] = [
    (
        "en",
        Algorithm::English,
        "a about after again all also am an and any are as at be because been before being but by can could d did do \
         does doing don down during each few for from further had has have having he her here hers herself him himself \
         his how i if in into is isn it its itself just ll m me more most my myself no nor not now of off on once only \
         or other our ours out over own re s same shall she should so some such t than that the their theirs them \
         themselves then there these they this those through to too under until up ve very was wasn we were what when \
         where which while who whom whose why will with would you your yours yourself didn doesn hasn haven couldn \
         shouldn wouldn won aren weren",
    ),
    (
        "de",
        Algorithm::German,
        "aber als am an auch auf aus bei bin bis bist da damit dann das dass dem den der des die dies diese dieser \
         dieses dir doch du durch ein eine einem einen einer eines er es fur hat hatte habe haben ich ihm ihn ihr ihre \
         im in ist ja kann kein keine man mein mich mir mit nach nicht noch nur ob oder sein sich sie sind so uber um \
         und uns unser von vom vor war waren was weil wenn wer wie wir wird wo wurde werden zu zum zur",
    ),
    (
        "fr",
        Algorithm::French,
        "ai au aux avec avez avons c ce ces cet cette comme d dans de des du elle elles en est et etait ete etre eu il \
         ils j je l la le les leur leurs lui ma mais me mes moi mon n ne nos notre nous on ont ou par pas plus pour qu \
         que quel quelle qui quand s sa sans se ses si son sont sur ta te tes toi ton tu un une vos votre vous y",
    ),
    (
        "es",
        Algorithm::Spanish,
        "a al algo ante como con cual cuando de del desde donde el ella ellas ellos en entre era es esa ese eso esta \
         estan este esto estos fue fueron ha han has hay la las le les lo los mas me mi mis muy no nos nosotros o para \
         pero por porque que quien se ser si sin sobre son soy su sus tambien te tiene tu un una uno unos y ya yo",
    ),
    (
        "pt",
        Algorithm::Portuguese,
        "a ao aos as com como da das de dela dele depois do dos e ela ele eles em entre era essa esse esta este eu foi \
         foram ha isso isto ja mais mas me meu minha muito na nao nas nem no nos nossa nosso num numa o os ou para \
         pela pelo por porque qual quando que quem se sem ser seu seus so sua suas tambem te tem um uma voce voces",
    ),
    (
        "it",
        Algorithm::Italian,
        "a ad agli ai al alla alle anche c che chi ci come con cui da dal dalla de degli dei del della delle di dove e \
         ed era gli ha hai hanno ho i il in io l la le lei li lo loro lui ma mi mia mio ne nei nel nella noi non o per \
         perche piu quale quando quella quello questa questo se si sia sono su sul sulla suo tra tu un una uno vi voi",
    ),
    (
        "nl",
        Algorithm::Dutch,
        "aan als alleen ben bij dan dat de der deze die dit door dus een en er geen had heb hebben heeft het hier hij \
         hoe hun ik in is ja je jij kan maar me meer met mij mijn na naar niet nog nu of om omdat onder ons ook op over \
         te tot toen u uit van veel voor want waren was wat we wel werd wie wij wordt worden ze zich zij zijn zo zou",
    ),
    (
        "sv",
        Algorithm::Swedish,
        "alla att av blev bli blir da de dem den denna deras dess det detta dig din ditt du eller en ett fran for ha \
         hade han hans har hennes hon hur i icke inte ja jag kan man med men mig min mitt mot mycket nar nu och om oss \
         pa sa samma sedan sig sin sina ska som till ut utan vad var vara vart vi vid vilken",
    ),
    (
        "da",
        Algorithm::Danish,
        "af alle at blev blive bliver da de dem den denne der deres det dette dig din dog du efter eller en end er et \
         for fra ham han hans har havde have hende hendes her hos hun hvad hvis hvor i ikke ind jeg jer jo kunne man \
         med meget men mig min mine mod ned nar nej nogen noget nu og ogsa om op os over pa sig sin skal som til ud vi",
    ),
    (
        "no",
        Algorithm::Norwegian,
        "alle at av bare ble blir da de deg dem den denne der dere det dette din du eller en er et etter for fordi fra \
         ha hadde han hans har henne her hun hva hvem hvis hvor hvordan i ikke ingen inn jeg kan man med meg meget men \
         mer min mitt mot ned noe noen nar og ogsa om opp oss over pa seg sin skal som til ut uten vi ville vaere",
    ),
    (
        "fi",
        Algorithm::Finnish,
        "en ei eivat ett etta han hanen he heidan ja jo joka jos jotka kanssa koska kuin kun me meidan mika mina \
         minulla minun minut mita mutta mukaan mutta myos ne niin nyt oli olen olet olla on ollut ovat se sen sina \
         sinun sita siita tai taman tama te tassa vain voi vaan",
    ),
    (
        "tr",
        Algorithm::Turkish,
        "acaba ama bana bazı belki ben beni benim bir biz bu cok cunku da daha de degil diye en gibi hem hep hepsi her \
         hic icin ile ise kadar ki kim mi mu mı nasıl ne neden nerede niye o olan olarak sana sen siz su ve veya ya \
         yani",
    ),
    (
        "pl",
        Algorithm::Polish,
        "ale bardzo bez by byc byl była było bylo był bo co czy dla do gdy gdzie go i ich ja jak jako je jego jej jest \
         jestem juz już kiedy kto ktory która ktore lub ma mam mi mnie moze może na nad nie nim o od ona oni ono po pod \
         przed przez przy sa są sie się ta tak tam te tego tej ten to tu ty tylko tym w we z za ze że",
    ),
    (
        "hu",
        Algorithm::Hungarian,
        "a abban ahol aki akkor ami amely az azt azonban be csak de e eg egy egyik el ennek es ez ezt es fel hanem hogy \
         ha hol igen is itt jol kell ki kik le lehet lesz lett maga mar meg mely mert mi mint most nagyon ne nem nincs \
         ok olyan on ott sem sok szerint tehat ugy utan vagy vagyok van vannak volt voltak",
    ),
    (
        "ro",
        Algorithm::Romanian,
        "a acea aceasta aceste acest ai al ale am ar are as asa au ca care cand ce cel cea cele cu cum da daca de deci \
         din dar dupa e ea ei el ele era este eu fi fie fost iar il in la le lor lui mai ma mea meu mi nu noi o pe \
         pentru prin sa sau se si sunt sus te tu un unde unei unui va voi",
    ),
    (
        "cs",
        Algorithm::Czech,
        "a aby ale ani az bez bude by byl byla bylo byt co coz do ho i ja jak jako je jeho jej jeji jen jeste ji jiz \
         jsem jsi jsme jsou k kde kdo kdyz ke ktera ktere ktery kteri ma mate me mi mne muze my na nad nam nebo neni \
         nic o od on ona pak po pod podle pokud pro proc proto pred pri s se si sve ta tak take tam te tento ten to \
         tom tu ty u uz v ve vsak z za ze",
    ),
];

/// Function words of the languages that are not of Latin script.
const OTHERS: &str = "а без был была было быть в вам вас во вот все вы где да для до его ее если есть еще же за здесь и из \
    или им их к как ко когда кто ли мне мы на над не него нет ни но ну о об он она они оно от по под при с себя со так \
    также там то того тоже только том ты у уже чем что чтобы эта это этот я \
    αν απο αυτα αυτη αυτο αυτος για δεν ειναι εκει ενα ενας η ηταν θα και κι με μη μια να ο οι οπως οταν οτι που προς πως \
    σε στη στην στο στον τα τη την της τι τις το τον του τους των ως \
    إلى إن أن أو أي ثم عن على في قد كان كانت كل كما لا لم ما مع من منذ هذا هذه هل هو هي و يا \
    और इस इसके एक ऐसे कर करने कहा का कि किया की के को क्या गया जो तक तो था थी थे दिया नहीं ने पर भी में यह ये लिए वह वे से हो है हैं";

/// The bit of the languages that are not of Latin script.
const SCRIPTS: u32 = 1 << 31;

/// The languages that each function word belongs to, as bits.
static FUNCTION_WORDS: LazyLock<HashMap<String, u32>> = LazyLock::new(|| {
    let mut known: HashMap<String, u32> = HashMap::new();
    for (bit, (.., words)) in LATIN.iter().enumerate() {
        for word in words.split_whitespace() {
            *known.entry(folded(word)).or_default() |= 1 << bit;
        }
    }
    for word in OTHERS.split_whitespace() {
        *known.entry(folded(word)).or_default() |= SCRIPTS;
    }
    known
});

impl Language {
    /// Returns the detectable languages of Latin script other than English.
    pub(super) fn all() -> impl Iterator<Item = Language> {
        (1..LATIN.len()).map(Language)
    }

    /// Detects the language of a text by its folded words; `None` if it is English or unknown.
    pub(super) fn detect(words: impl IntoIterator<Item = impl AsRef<str>>) -> Option<Language> {
        let mut counts = [0_u32; LATIN.len()];
        let mut all = 0;
        // Single letters are names of variables more often than words.
        for word in words.into_iter().filter(|word| word.as_ref().len() > 1).take(LOOKED_AT) {
            all += 1;
            let languages = FUNCTION_WORDS.get(word.as_ref()).copied().unwrap_or_default();
            for (bit, count) in counts.iter_mut().enumerate() {
                *count += languages >> bit & 1;
            }
        }
        let [english, others @ ..] = counts;
        // The first of several equally likely languages.
        let (most, count) = others.into_iter().enumerate().rev().max_by_key(|(_, count)| *count)?;
        (count >= FEWEST && count * ONE_IN >= all && count > english).then_some(Language(most + 1))
    }

    /// Returns the code of the language.
    pub(super) fn code(self) -> &'static str {
        LATIN.get(self.0).map_or("", |(code, ..)| code)
    }

    /// Returns the stem of a word in lower case in this language, folded; `None` if the word has other letters or is
    /// too long.
    pub(super) fn stem(self, word: &str) -> Option<String> {
        let (_, algorithm, _) = LATIN.get(self.0)?;
        let is_word = word.chars().all(|c| c.is_alphabetic() && c < '\u{250}') && word.chars().count() <= LONGEST;
        is_word.then(|| folded(&Stemmer::create(*algorithm).stem(word)))
    }
}

/// Returns whether a folded word is a function word in a text of this language, or of English if `None`.
pub(super) fn is_function_word(word: &str, language: Option<Language>) -> bool {
    let languages = FUNCTION_WORDS.get(word).copied().unwrap_or_default();
    let bit = 1 << language.map_or(0, |language| language.0);
    languages & (bit | SCRIPTS) != 0
}

/// The most bytes of a word whose stem is cached. Longer ones are data, and seldom repeated.
const LONGEST_KNOWN: usize = 64;

/// Returns the term of a word that every text with the word has: its stem in the default language of its script,
/// folded.
pub(super) fn common_stem(word: &str) -> String {
    thread_local! {
        // Stemming takes ten times as long as a lookup, and a text repeats its words.
        static KNOWN: RefCell<HashMap<String, String>> = RefCell::default();
    }
    if word.len() > LONGEST_KNOWN {
        return common_stem_of(word);
    }
    KNOWN.with_borrow_mut(|known| {
        if let Some(stem) = known.get(word) {
            return stem.clone();
        }
        let stem = common_stem_of(word);
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        known.insert(word.to_owned(), stem.clone());
        stem
    })
}

fn common_stem_of(word: &str) -> String {
    let plain = folded(word);
    let common = word.chars().next().and_then(common_language);
    let Some((algorithm, _)) = common.filter(|(_, is_letter)| plain.chars().all(is_letter)) else { return plain };
    if plain.chars().count() > LONGEST {
        return plain;
    }
    let stemmer = Stemmer::create(algorithm);
    // The accent of `й` distinguishes letters, and the stemmer needs it to recognize endings. Other accents are often
    // omitted.
    let spelled: Cow<'_, str> = match algorithm {
        Algorithm::Russian => Cow::Owned(russian(word)),
        _ => Cow::Borrowed(&plain),
    };
    folded(&stemmer.stem(&spelled))
}

/// Returns a Cyrillic word as the stemmer expects it: in lower case, without accents and diaeresis, but with `й`.
fn russian(word: &str) -> String {
    let word = word.to_lowercase();
    word.nfd().filter(|c| !matches!(c, '\u{300}'..='\u{305}' | '\u{307}'..='\u{36f}')).nfc().collect()
}

/// Returns whether a character can be in a word of a language.
type IsLetter = fn(char) -> bool;

/// Returns the stemmer for words that begin with this letter, and the test for the letters of such words.
fn common_language(letter: char) -> Option<(Algorithm, IsLetter)> {
    Some(match letter {
        'a'..='z' | 'A'..='Z' | '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => {
            (Algorithm::English, |c| c.is_ascii_lowercase())
        }
        '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}' => (Algorithm::Greek, |c| matches!(c, '\u{370}'..='\u{3ff}')),
        '\u{400}'..='\u{4ff}' => (Algorithm::Russian, |c| matches!(c, '\u{400}'..='\u{4ff}')),
        '\u{620}'..='\u{64a}' => (Algorithm::Arabic, |c| matches!(c, '\u{620}'..='\u{65f}')),
        '\u{900}'..='\u{97f}' => (Algorithm::Hindi, |c| matches!(c, '\u{900}'..='\u{963}')),
        '\u{b80}'..='\u{bff}' => (Algorithm::Tamil, |c| matches!(c, '\u{b80}'..='\u{bff}')),
        _ => return None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::words::words;
    use super::*;

    fn detected(text: &str) -> &'static str {
        let words = words(text);
        Language::detect(words.iter().map(String::as_str)).map_or("en", Language::code)
    }

    #[test]
    fn a_language_is_told_by_its_function_words() {
        for (text, expected) in [
            ("", "en"),
            ("The tests of the parser fail, and nobody knows why.", "en"),
            ("linker error", "en"),
            ("processes that die in an hour", "en"),
            ("Die Häuser sind nicht mehr bewohnt, weil der Fluss gestiegen ist.", "de"),
            ("Les maisons ne sont pas habitées depuis que la rivière est montée.", "fr"),
            ("Las casas no están habitadas porque el río ha subido.", "es"),
            ("As casas não são habitadas porque o rio subiu.", "pt"),
            ("Le case non sono abitate perché il fiume è salito.", "it"),
            ("De huizen zijn niet bewoond, want het water is gestegen.", "nl"),
            ("Husen är inte bebodda för att floden har stigit, och det är synd.", "sv"),
            ("Evler bu nehir için boş değil ama çok eski ve bir de küçük.", "tr"),
            ("Domy nie są zamieszkane, ponieważ rzeka się podniosła i jest to problem.", "pl"),
            ("let mut all = vec![1]; all.push(2); fn de(d: u8, s: &str) -> Result<Vec<u8>, Error> { la(d, s) }", "en"),
        ] {
            assert_eq!(detected(text), expected, "{text}");
        }
    }

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for (one, other) in [
            ("painted", "painting"),
            ("running", "runs"),
            ("caf\u{e9}s", "cafe"),
            ("книгами", "книга"),
            ("новый", "новые"),
            ("ЕЩЁ", "еще"),
            ("σπίτια", "σπιτι"),
        ] {
            assert_eq!(common_stem(one), common_stem(other), "{one} {other}");
        }
        let stem = |code: &str, word: &str| Language::all().find(|known| known.code() == code).unwrap().stem(word);
        assert_eq!(stem("de", "häuser"), stem("de", "haus"));
        assert_eq!(stem("fr", "habitées"), stem("fr", "habiter"));
        assert_eq!(stem("es", "hablando"), stem("es", "hablar"));
        assert_eq!((stem("de", "read_file"), stem("de", "книга"), stem("de", "x2")), (None, None, None));
        assert_eq!(common_stem("read_file"), "read_file");
        assert_eq!(common_stem("5050"), "5050");
    }

    #[test]
    fn no_word_makes_a_stemmer_panic() {
        // Words of random letters of each script, the same in every run.
        let mut state = 1_u64;
        let mut random = |below: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32 % below
        };
        for (first, count) in
            [(0x61, 26), (0xc0, 0x190), (0x370, 0x90), (0x400, 0x100), (0x620, 0x40), (0x900, 0x64), (0xb80, 0x80)]
        {
            for _ in 0..1_500 {
                let length = random(9) + 1;
                let word: String = (0..length).filter_map(|_| char::from_u32(first + random(count))).collect();
                for word in [word.to_lowercase(), folded(&word), word] {
                    common_stem(&word);
                    Language::all().for_each(|language| drop(language.stem(&word)));
                }
            }
        }
    }
}
