//! Rules: sentences in which a person says how something is to be done from now on, or takes that back.
//!
//! They are recognized by their form, in eleven languages: by words such as `always`, `nie`, `jamais` or `必须`. So a
//! sentence without such a word is not recognized, and some ordinary sentences are.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

use crate::text::is_east_asian;

/// The most bytes of a sentence.
const LONGEST: usize = 400;
/// The most words of a phrase in the lists.
const MOST_WORDS: usize = 4;
/// The most letters of a word that are compared, since many languages change the ends of words.
const STEM: usize = 5;

/// How clearly a sentence states a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// It has a word that rules have, and other sentences as well, such as `should`.
    Weak,
    /// It has a word such as `never`.
    Strong,
}

/// Words and phrases that state a rule, in lower case.
const STRONG: &str = "\
    always, never, must, mustn't, mustnt, don't, dont, do not, from now on, from here on, going forward, in future, \
    in the future, at all times, at all costs, under no circumstances, no matter, every time, each time, \
    not allowed, forbidden, off limits, make sure, be sure to, ensure, avoid, refrain, stick to, stick with, \
    stay away, keep in mind, remember to, remember that, rule, instead of, rather than, unless, without asking, \
    without my, shouldn't, should not, should never, should always, may not, cannot be, can't be, hands off, \
    no more than, at most, at least, whenever, strictly, mandatory, required, prohibited, we only, i only, only use, \
    use only, must be, immer, nie, niemals, muss, müssen, musst, darf, dürfen, darfst, ab jetzt, ab sofort, künftig, \
    zukünftig, in zukunft, grundsätzlich, ausschließlich, ausschliesslich, stets, verboten, tabu, vermeide, \
    vermeiden, achte, achtet, beachte, denk dran, denk daran, jedes mal, jedesmal, auf keinen fall, unbedingt, \
    lass die finger, finger weg, bleib bei, höchstens, mindestens, nur noch, zwingend, pflicht, merk dir, \
    nicht anfassen, unter keinen umständen, gilt, von nun an, fortan, toujours, jamais, il faut, doit, doivent, \
    devez, interdit, interdite, interdits, désormais, dorénavant, à partir de maintenant, évite, évitez, éviter, \
    uniquement, exclusivement, assure-toi, assurez-vous, veille à, veillez à, n'oublie pas, n'oubliez pas, \
    surtout pas, au lieu de, plutôt que, obligatoire, obligatoirement, systématiquement, à chaque fois, chaque fois, \
    au maximum, impérativement, en aucun cas, ne touche, ne touchez, n'utilise, n'utilisez, pas touche, \
    hors de question, siempre, nunca, jamás, debe, deben, debes, hay que, tienes que, tiene que, tienen que, \
    prohibido, prohibida, a partir de ahora, de ahora en adelante, en adelante, evita, evitar, evitad, únicamente, \
    asegúrate, recuerda, en lugar de, en vez de, cada vez que, como máximo, como mínimo, ten en cuenta, obligatorio, \
    bajo ningún concepto, bajo ninguna circunstancia, ni se te ocurra, no toques, no uses, no metas, no hagas, \
    no borres, no cambies, no quiero, procura, sempre, deve, devem, evite, apenas, somente, a partir de agora, \
    daqui para frente, em vez de, proibido, certifique-se, lembre-se, não use, não mexa, nunca mais, devi, devono, \
    d'ora in poi, da ora in poi, assicurati, ricorda, ricordati, invece di, vietato, evitare, soltanto, non usare, \
    non toccare, bisogna, altijd, nooit, moet, moeten, mag niet, voortaan, vanaf nu, vermijd, zorg dat, zorg ervoor, \
    verboden, uitsluitend, in plaats van, onthoud, всегда, никогда, должен, должна, должны, должно, нельзя, не надо, \
    избегай, избегайте, впредь, отныне, запрещено, обязательно, ни в коем случае, вместо, с этого момента, следи, \
    не трогай, 必须, 务必, 始终, 总是, 永远, 从不, 绝不, 绝对, 千万, 禁止, 不准, 不许, 不得, 请勿, 切勿, 一律, 只能, \
    只用, 以后, 今后, 从现在起, 从今, 统一, 记得, 记住, 避免, 不要, 别动, 别用, 别碰, 别再, 不可, 一定要, 每次, \
    都要, 最多, 至少, 不能, 原则, 必ず, 絶対, 常に, ないで, 今後, これから, 避けて, してはいけ, べき, 항상, 절대, \
    반드시, 하지 마, 지 말, 금지, 앞으로, 피해";

/// Words and phrases that rules have, and other sentences as well.
const WEAK: &str = "\
    should, need to, needs to, have to, has to, want, prefer, rather, only, without, instead, keep, leave, use, no, \
    not, until, except, just, policy, please, we use, let's not, prefix, limit, soll, sollen, sollte, sollten, \
    nicht, kein, keine, keinen, keiner, keinerlei, nur, bitte, statt, anstatt, ohne, lieber, lass, nutze, nutzt, \
    verwende, verwendet, nimm, möchte, pas de, ne, pas, sans, seulement, veux, préfère, préférer, garde, gardez, \
    utilise, utilisez, plutôt, faut, aucun, aucune, pense à, pensez à, merci de, sin, solo, sólo, prefiero, \
    quiero que, usa, usad, utiliza, mantén, deja, que no, nada de, ningún, ninguna, mejor, hasta, não, sem, prefiro, \
    só, non, senza, preferisco, niet, geen, alleen, zonder, liever, gebruik, не, только, без, нужно, надо, лучше, \
    используй, 别, 应该, 应当, 只, 需要, 尽量, 优先, 保持, 不用, 请用, 改用, 而不是, 就行, 勿, 注意, のみ, だけ, \
    ください, 말고, 만, 주세요";

/// Words and phrases with which a person takes a rule back.
const REVOKING: &str = "\
    forget what, forget about, forget the rule, forget that rule, forget my, ignore what i, ignore my, \
    ignore the rule, ignore that rule, disregard, scrap, no longer need, no longer needed, after all, fine now, \
    ok now, okay now, allowed now, allowed again, lifted, changed my mind, take back, taking back, took back, \
    on second thought, doesn't apply, does not apply, don't have to, do not have to, no need to, needn't, \
    you may use, you may now, you may again, off the table, drop the rule, let's drop, bad idea of mine, ban on, \
    isn't a requirement, not a requirement, no longer a requirement, feel free, vergiss, vergesst, \
    kannst du vergessen, könnt ihr vergessen, ignorier, ignoriere, aufgehoben, hinfällig, jetzt doch, doch wieder, \
    darf wieder, darfst wieder, kannst wieder, wieder erlaubt, nehm ich zurück, nehme ich zurück, nehme zurück, \
    kommando zurück, streichen wir, gestrichen, anders überlegt, gilt nicht mehr, von mir aus, fällt weg, \
    musst nicht mehr, brauchst nicht mehr, brauchst du nicht mehr, brauchst du mir, oublie, oubliez, plus besoin, \
    plus nécessaire, tu peux à nouveau, vous pouvez à nouveau, annule, annulée, annulons, laisse tomber, \
    changé d'avis, reviens sur, levée, plus valable, ne s'applique plus, inutile désormais, au temps pour moi, \
    ne posent plus, ne pose plus, de nouveau autorisé, olvida, olvídate, olvidad, ya no hace falta, ya no necesitas, \
    ya puedes, ya podéis, ya se puede, sí puedes, anula, anulamos, cambiado de idea, cambié de opinión, retiro, \
    me desdigo, sin efecto, ya está permitido, não precisa mais, esqueça, non serve più, dimentica, niet meer nodig, \
    mag weer, больше не нужно, уже можно, 不用管, 不用再, 作废, 现在可以, 可以用了, 不再需要, 算了, 不必再, 解除, \
    改主意, 撤回, 收回, 取消, 无妨, 忘れて, 取り消, 잊어, 취소";

/// Common words of four letters or more that do not say what a sentence is about.
const COMMON: &str = "\
    this, that, with, have, what, said, about, from, they, them, there, these, those, when, then, than, your, will, \
    would, could, like, some, more, into, also, been, were, make, does, done, over, after, before, please, \
    everything, something, anything, thing, things, every, each, other, which, where, because, still, really, here, \
    much, many, very, time, work, turned, need, needs, rule, dass, eine, einen, einem, einer, auch, noch, wenn, \
    dann, oder, aber, mein, meine, dein, deine, sein, ihre, haben, hast, sind, wird, werden, wurde, kann, jetzt, \
    mehr, alle, allen, alles, diese, dieser, dieses, beim, habe, gesagt, jede, jeder, jedes, schon, sonst, unserem, \
    unsere, nach, über, für, unter, damit, dans, avec, pour, plus, cette, sont, vous, nous, leur, mais, tout, tous, \
    toute, toutes, fait, faire, comme, bien, être, c'est, j'ai, qu'on, avant, après, chaque, sous, forme, elle, \
    elles, para, como, pero, este, esta, esto, estos, estas, todo, toda, todos, todas, cuando, donde, porque, desde, \
    entre, sobre, tiene, hacer, sido, dicho, siempre, cada, unos, unas, 这个, 那个, 一个, 我们, 你们, 之前, 现在, \
    已经, 什么, 怎么, 的时, 时候, 说的, look, today, tomorrow, just, good, know, think, maybe, first, last, back, \
    anybody, somebody, quand, même, passe, voilà, steht, seit, heute, morgen, gestern, weiß, leider, immer, macht, \
    gibt, geht, einfach, vielleicht, estoy, está, están, hace, ahora, final, quiero, mismo, aquí, solo, hasta, \
    queda, sería, puede";

/// The phrases of one of the lists.
struct Phrases {
    /// Those of languages that separate their words.
    spaced: HashSet<&'static str>,
    unspaced: Vec<&'static str>,
}

impl Phrases {
    fn read(list: &'static str) -> Phrases {
        let (unspaced, spaced): (Vec<_>, Vec<_>) = list.split(',').map(str::trim).partition(|it| is_unspaced(it));
        Phrases { spaced: spaced.into_iter().collect(), unspaced }
    }

    /// Returns whether a sentence has any of them. `plain` is the sentence as [`plain`] returns it.
    fn is_in(&self, sentence: &str, plain: &str) -> bool {
        phrases(plain).any(|phrase| self.spaced.contains(phrase))
            || (is_unspaced(sentence) && self.unspaced.iter().any(|phrase| sentence.contains(phrase)))
    }

    fn has(&self, word: &str) -> bool {
        self.spaced.contains(word) || self.unspaced.contains(&word)
    }
}

static LISTS: LazyLock<[Phrases; 4]> = LazyLock::new(|| [STRONG, WEAK, REVOKING, COMMON].map(Phrases::read));

/// Returns whether a sentence is a question, which asks more often than it demands.
pub fn asks(sentence: &str) -> bool {
    sentence.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '_' | ')' | '"')).ends_with(['?', '？'])
}

/// Returns how clearly a sentence states a rule, or `None` if it states none.
///
/// ```
/// use lookback_content::rules::{Rule, states_rule};
///
/// assert_eq!(states_rule("Never push to main."), Some(Rule::Strong));
/// assert_eq!(states_rule("Bitte keine neuen Abhängigkeiten"), Some(Rule::Weak));
/// assert_eq!(states_rule("The build is green."), None);
/// ```
pub fn states_rule(sentence: &str) -> Option<Rule> {
    let [strong, weak, ..] = &*LISTS;
    let plain = plain(sentence);
    match strong.is_in(sentence, &plain) {
        true if asks(sentence) => Some(Rule::Weak),
        true => Some(Rule::Strong),
        false => (!asks(sentence) && weak.is_in(sentence, &plain)).then_some(Rule::Weak),
    }
}

/// Returns whether a sentence takes a rule back.
pub fn revokes(sentence: &str) -> bool {
    let [_, _, revoking, _] = &*LISTS;
    !asks(sentence) && revoking.is_in(sentence, &plain(sentence))
}

/// Returns the words of a sentence that say what it is about: the stems of words that are in none of the lists, or pairs
/// of characters in languages that do not separate their words.
pub fn subjects(sentence: &str) -> HashSet<String> {
    let plain = plain(sentence);
    let words = plain.split(' ').flat_map(|word| word.rsplit('\'').next());
    let words = words.filter(|word| word.chars().nth(3).is_some() && !is_unspaced(word));
    let stems = words.filter(|word| !LISTS.iter().any(|list| list.has(word)));
    let mut found: HashSet<String> = stems.map(|word| word.chars().take(STEM).map(bare).collect()).collect();
    let characters: Vec<char> = sentence.chars().collect();
    let pairs = characters.windows(2).filter(|pair| pair.iter().all(|c| is_east_asian(*c)));
    let pairs = pairs.map(|pair| pair.iter().collect::<String>());
    found.extend(pairs.filter(|pair| !LISTS.iter().any(|list| list.has(pair))));
    found
}

/// Returns the ranges of the sentences of a text: the pieces of its lines that end with a full stop, or a mark like it.
/// A long one is cut.
pub fn sentences(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let rest = text.get(start..).filter(|rest| !rest.is_empty())?;
        let ends = |(at, c): (usize, char)| {
            let end = at + c.len_utf8();
            let closes = match c {
                '.' | '!' | '?' | ';' => rest.get(end..).is_some_and(|after| after.starts_with([' ', '"', '\'', ')'])),
                '。' | '！' | '？' | '；' | '\n' => true,
                _ => false,
            };
            closes.then_some(end)
        };
        let end = rest.char_indices().find_map(ends).unwrap_or(rest.len());
        let sentence = rest.get(..end)?;
        let from = start + sentence.len() - sentence.trim_start().len();
        start += end;
        let trimmed = sentence.trim();
        Some(from..from + trimmed.floor_char_boundary(LONGEST))
    })
    .filter(|range| !range.is_empty())
}

/// Returns a text in lower case, with single spaces in place of everything that is not part of a word.
fn plain(text: &str) -> String {
    let inner = |c: char| c.is_alphanumeric() || matches!(c, '\'' | '-');
    let straight = text.replace('’', "'").to_lowercase();
    let words = straight.split(|c| !inner(c)).map(|word| word.trim_matches(['\'', '-']));
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Returns every sequence of up to [`MOST_WORDS`] words of a plain text.
fn phrases(plain: &str) -> impl Iterator<Item = &str> {
    let starts = std::iter::once(0).chain(plain.match_indices(' ').map(|(at, _)| at + 1));
    starts.flat_map(|start| {
        let rest = plain.get(start..).unwrap_or_default();
        let ends = rest.match_indices(' ').map(|(at, _)| at).chain([rest.len()]);
        ends.take(MOST_WORDS).filter_map(|end| rest.get(..end))
    })
}

/// Returns a letter without its accent, since forms of one word differ in it.
fn bare(letter: char) -> char {
    match letter {
        'à' | 'á' | 'â' | 'ã' | 'ä' => 'a',
        'è' | 'é' | 'ê' | 'ë' => 'e',
        'ì' | 'í' | 'î' | 'ï' => 'i',
        'ò' | 'ó' | 'ô' | 'õ' | 'ö' => 'o',
        'ù' | 'ú' | 'û' | 'ü' => 'u',
        other => other,
    }
}

fn is_unspaced(text: &str) -> bool {
    text.chars().any(is_east_asian)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_at_marks_and_at_line_ends() {
        let text = "Use a.rs v1.2. Never push!\n\n  - no emojis\n不要用制表符。好的";
        let found: Vec<&str> = sentences(text).map(|range| &text[range]).collect();
        assert_eq!(found, ["Use a.rs v1.2.", "Never push!", "- no emojis", "不要用制表符。", "好的"]);
    }

    #[test]
    fn every_phrase_of_the_lists_is_found() {
        for (list, phrases) in [STRONG, WEAK, REVOKING].iter().zip(LISTS.iter()) {
            for phrase in list.split(',').map(str::trim) {
                assert!(phrases.is_in(phrase, &plain(phrase)), "{phrase}");
            }
        }
    }

    #[test]
    fn what_a_sentence_is_about_does_not_depend_on_its_form() {
        let rule = subjects("Never use tabs for indentation.");
        assert_eq!(rule.intersection(&subjects("Forget what I said about tabs")).count(), 1, "{rule:?}");
        assert!(revokes("Forget what I said about tabs") && !revokes("Never use tabs."));
        assert!(subjects("不要用制表符缩进").intersection(&subjects("制表符可以用了")).count() > 1);
    }
}
