//! Random changes to facts: no call hangs, no sheet exceeds its budget, and no fact is lost without a reason.
//!
//! `LOOKBACK_DEEDS` sets the number of changes.

#![allow(clippy::cast_possible_truncation)]

use std::collections::HashSet;

use lookback_facts::{
    Confidence, Fact, FactEntry, FactId, FactKind, Facts, Judgment, Scope, SheetOptions, Source, Speaker, Statement,
    Trust, sheet,
};
use lookback_tokens::Estimate;

/// The default number of changes.
const DEEDS: u64 = 200_000;
/// The number of changes between two sheets.
const SHEETS: u64 = 2_000;
const THINGS: u64 = 40;

/// A generator that gives the same numbers in every run (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn choose<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// The way in which a statement reveals its subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// By name.
    About,
    /// By the words before a number at its end.
    Measured,
    /// It does not reveal it.
    Alone,
}

/// A statement in the test's model, which has no texts.
#[derive(Debug, Clone, Copy)]
struct Said {
    kind: FactKind,
    form: Form,
    thing: u64,
    value: u64,
    confidence: f64,
    trust: Trust,
}

impl Said {
    fn roll(dice: &mut Dice) -> Self {
        let form = dice.choose(&[Form::About, Form::Measured, Form::Alone]);
        let value = dice.below(if form == Form::Alone { 30 } else { 5 });
        let confidence = dice.below(11) as f64 / 10.0;
        let trust = dice.choose(&[Trust::Low, Trust::Medium, Trust::High]);
        Said { kind: dice.choose(&FactKind::ALL), form, thing: dice.below(THINGS), value, confidence, trust }
    }

    /// Writes the statement as text, with one of the variations that make no difference.
    fn statement(&self, dice: &mut Dice) -> Statement {
        let Said { thing, value, .. } = self;
        let text = match self.form {
            Form::About => format!("value {value} is what it has now"),
            Form::Measured => format!("service {thing} listens on port {value}"),
            Form::Alone => format!("issue {value} of part {thing} is open"),
        };
        let text = match dice.below(4) {
            0 => format!("The {text}."),
            1 => format!(" {} ", text.replacen(' ', "  ", 1)),
            2 => format!("{}{}", text[..1].to_uppercase(), &text[1..]),
            _ => text,
        };
        let by = match self.trust {
            Trust::Low => Speaker::Tool("grep".to_owned()),
            Trust::Medium => Speaker::Model,
            _ => Speaker::Person,
        };
        let mut statement = Statement::new(self.kind, text, Source::new(by)).confidence(self.confidence);
        statement.about = (self.form == Form::About).then(|| format!("Thing {thing}"));
        statement
    }

    fn slot(&self) -> usize {
        (self.kind as u64 * 3 * THINGS + self.form as u64 * THINGS + self.thing) as usize
    }
}

#[derive(Debug, Clone)]
struct Standing {
    id: FactId,
    said: Said,
    confirmations: u64,
}

/// The test's model: the current facts, in lists by subject.
struct Model {
    scope: Scope,
    end: u64,
    slots: Vec<Vec<Standing>>,
    over: Vec<(FactId, FactId)>,
}

impl Model {
    fn new(scope: Scope) -> Self {
        Model { scope, end: 0, slots: vec![Vec::new(); FactKind::ALL.len() * 3 * THINGS as usize], over: Vec::new() }
    }

    fn judge(&self, said: &Said, extra: Option<(FactId, Trust)>) -> Option<Judgment> {
        let slot = &self.slots[said.slot()];
        let newest = || slot.iter().rev();
        let same: Vec<_> = newest().filter(|it| it.said.value == said.value).collect();
        let others: Vec<_> = newest().filter(|it| it.said.value != said.value && said.form != Form::Alone).collect();
        let takes = |it: &&&Standing| it.said.trust <= said.trust;
        if extra.is_none()
            && let Some(first) = same.first()
            && !(takes(&first) && others.iter().any(|it| takes(&it)))
        {
            return Some(Judgment::Again { id: first.id });
        }
        if extra.is_some_and(|(id, trust)| id.scope == self.scope && trust > said.trust) {
            return None;
        }
        let mut supersedes: Vec<FactId> = extra.into_iter().map(|(id, _)| id).collect();
        for it in same.iter().chain(&others).filter(|it| takes(it)) {
            if !supersedes.contains(&it.id) {
                supersedes.push(it.id);
            }
        }
        let disputes = others.iter().find(|it| !supersedes.contains(&it.id)).map(|it| it.id);
        Some(Judgment::New { supersedes, disputes })
    }

    fn take(&mut self, id: FactId, slot: usize) {
        self.slots[slot].retain(|it| it.id != id);
    }
}

fn same(fact: &Fact, it: &Standing) -> bool {
    fact.confirmations == it.confirmations
        && fact.trust == it.said.trust
        && fact.confidence == Confidence::new(it.said.confidence)
        && fact.statement.kind == it.said.kind
}

/// The facts and their model, and the place of each fact in the model.
struct Both {
    facts: Facts,
    model: Model,
    slot_of: Vec<Option<usize>>,
}

impl Both {
    fn new(scope: Scope) -> Self {
        Both { facts: Facts::new(scope), model: Model::new(scope), slot_of: Vec::new() }
    }

    /// Picks any fact, current or not, with its slot if it is current.
    fn any(&self, dice: &mut Dice) -> Option<(FactId, Option<usize>)> {
        let position = dice.below(self.model.end.max(1));
        let slot = *self.slot_of.get(position as usize)?;
        let id = FactId { scope: self.model.scope, position };
        Some((id, slot.filter(|slot| self.model.slots[*slot].iter().any(|it| it.id == id))))
    }

    fn trust(&self, id: FactId, slot: usize) -> Trust {
        self.model.slots[slot].iter().find(|it| it.id == id).unwrap().said.trust
    }

    fn state(&mut self, said: Said, extra: Option<(FactId, Trust)>, dice: &mut Dice) {
        let mut statement = said.statement(dice);
        statement.supersedes = extra.iter().map(|(id, _)| *id).collect();
        let expected = self.model.judge(&said, extra);
        let judged = self.facts.judge(&statement);
        assert_eq!(judged.as_ref().ok(), expected.as_ref(), "{statement:?}: {judged:?}");
        match expected {
            None => {}
            Some(Judgment::Again { id }) => {
                let Statement { confidence, source, trust, time, .. } = statement;
                self.apply(&FactEntry::Confirmed { id, confidence, source, trust, time }, None);
                let it = self.model.slots[said.slot()].iter_mut().find(|it| it.id == id).unwrap();
                it.confirmations += 1;
                it.said.confidence = it.said.confidence.max(said.confidence);
                it.said.trust = it.said.trust.max(said.trust);
            }
            Some(Judgment::New { supersedes, .. }) => {
                let id = FactId { scope: self.model.scope, position: self.model.end };
                for old in &supersedes {
                    if old.scope == self.model.scope {
                        let slot = self.slot_of[old.position as usize].unwrap();
                        self.model.take(*old, slot);
                        self.model.over.iter_mut().filter(|(_, by)| by == old).for_each(|(_, by)| *by = id);
                    } else {
                        self.model.over.retain(|(shared, _)| shared != old);
                        self.model.over.push((*old, id));
                    }
                }
                statement.supersedes = supersedes;
                self.apply(&FactEntry::Stated(statement), Some(said.slot()));
                self.model.slots[said.slot()].push(Standing { id, said, confirmations: 0 });
            }
            Some(_) => unreachable!(),
        }
    }

    /// Resolves a blocker or forgets a fact, current or not.
    fn end(&mut self, dice: &mut Dice) {
        let Some((id, slot)) = self.any(dice) else { return };
        let source = Source::new(Speaker::Person);
        let entry = match dice.below(2) {
            0 => FactEntry::Resolved { id, with: "done".to_owned(), source, time: None },
            _ => FactEntry::Forgotten { id, why: None, source, time: None },
        };
        self.apply(&entry, None);
        if let Some(slot) = slot {
            self.model.take(id, slot);
            self.model.over.retain(|(_, by)| *by != id);
        }
    }

    fn apply(&mut self, entry: &FactEntry, slot: Option<usize>) {
        self.facts.apply(entry);
        self.model.end += 1;
        self.slot_of.push(slot);
    }

    /// Checks that the current facts are those of the model.
    fn compare(&self) {
        let mut count = 0;
        for it in self.model.slots.iter().flatten() {
            let fact = self.facts.get(it.id).unwrap_or_else(|| panic!("{it:?} was lost"));
            assert!(same(fact, it), "{fact:?} is not {it:?}");
            count += 1;
        }
        assert_eq!((self.facts.len(), self.facts.end()), (count, self.model.end));
        assert_eq!(FactKind::ALL.iter().map(|kind| self.facts.count(*kind)).sum::<usize>(), count);
    }
}

fn check_sheet(session: &Both, shared: &Both, dice: &mut Dice) {
    let most = 1 << dice.below(17);
    let options = SheetOptions::default().budget(dice.below(most)).surer_than(dice.below(11) as f64 / 10.0);
    let made = sheet(&[&session.facts, &shared.facts], &options, &Estimate::default());
    assert!(made.tokens <= options.budget, "{} of {}", made.tokens, options.budget);
    let over: HashSet<FactId> = session.model.over.iter().map(|(shared, _)| *shared).collect();
    let hidden = |id: FactId| over.contains(&id);
    let mut shown = [0; FactKind::ALL.len()];
    for id in &made.shown {
        shown[session.facts.get(*id).or(shared.facts.get(*id)).unwrap().statement.kind as usize] += 1;
    }
    for kind in FactKind::ALL {
        let of_kind = |both: &Both| both.facts.of_kind(kind).filter(|fact| !hidden(fact.id)).count();
        let standing = of_kind(session) + of_kind(shared);
        let left_out = made.left_out.iter().find(|left| left.kind == kind).map_or(0, |left| left.count);
        assert_eq!(shown[kind as usize] + left_out, standing as u64, "{kind}s with {options:?}");
    }
    assert!(!made.shown.iter().any(|id| hidden(*id)));
    let unprotected =
        FactKind::ALL.into_iter().filter(|kind| !kind.is_protected()).map(|kind| shown[kind as usize]).sum::<u64>();
    assert!(!made.is_short() || unprotected == 0, "what is protected comes first, with {options:?}");
}

#[test]
fn deeds_of_any_kind_lose_nothing_and_never_hang() {
    let deeds = std::env::var("LOOKBACK_DEEDS").ok().and_then(|deeds| deeds.parse().ok()).unwrap_or(DEEDS);
    let mut dice = Dice(7);
    let (mut session, mut shared) = (Both::new(Scope::Session), Both::new(Scope::Shared));
    for deed in 0..deeds {
        let said = Said::roll(&mut dice);
        match dice.below(1_000) {
            0..100 => session.end(&mut dice),
            100..110 => shared.end(&mut dice),
            110..200 => shared.state(said, None, &mut dice),
            200..250 => {
                if let Some((id, Some(slot))) = session.any(&mut dice) {
                    let trust = session.trust(id, slot);
                    session.state(said, Some((id, trust)), &mut dice);
                }
            }
            250 => {
                if let Some((id, Some(slot))) = shared.any(&mut dice) {
                    let trust = shared.trust(id, slot);
                    session.state(said, Some((id, trust)), &mut dice);
                }
            }
            _ => session.state(said, None, &mut dice),
        }
        if deed % SHEETS == 0 {
            check_sheet(&session, &shared, &mut dice);
            session.compare();
            shared.compare();
        }
    }
    session.compare();
    shared.compare();
    // With an unlimited budget, every protected fact is on the sheet.
    let options = SheetOptions::default().budget(u64::MAX);
    let all = sheet(&[&session.facts, &shared.facts], &options, &Estimate::default());
    assert!(!all.is_short() && all.shown.len() > 1_000);
}

#[test]
fn a_hundred_thousand_facts_that_are_all_protected_fit_a_sheet_of_any_size() {
    let mut facts = Facts::new(Scope::Session);
    for number in 0..100_000 {
        let text = format!("correction {number} is one that stands alone");
        facts.apply(&FactEntry::Stated(Statement::new(FactKind::Correction, text, Source::new(Speaker::Person))));
    }
    for budget in [0, 1, 10, 50, 100, 1_000, 10_000] {
        let options = SheetOptions::default().budget(budget);
        let made = sheet(&[&facts], &options, &Estimate::default());
        assert!(made.tokens <= budget);
        let left_out: Vec<_> = made.left_out.iter().map(|left| (left.kind, left.count)).collect();
        assert_eq!(left_out, [(FactKind::Correction, 100_000 - made.shown.len() as u64)]);
    }
    assert_eq!(facts.len(), 100_000);
}
