//! The rules of the game: who is asked, how ballots are counted, who dies, and when the game ends.
//! Communication with the players is elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The card of a player, which determines its part. Only the moderator knows all cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Card {
    /// Sleeps at night.
    Villager,
    /// Learns one player's card each night.
    Seer,
    /// Kills at night.
    Werewolf,
}

/// The phase of the game: night or day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Time {
    /// The werewolves choose a victim, and the seer learns a card.
    Night,
    /// All players talk, then all vote.
    Day,
}

/// How the game ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The village won: the last werewolf is dead.
    Village,
    /// The werewolves won: they are no longer outnumbered.
    Wolves,
    /// Nobody won within the largest number of rounds.
    Nobody,
}

/// The state of a game.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Game {
    /// The players' cards, also of the dead.
    pub cards: BTreeMap<String, Card>,
    /// The living players.
    pub living: BTreeSet<String>,
    /// The current phase.
    pub time: Time,
    /// The number of the night or day, from 1.
    pub round: u32,
    /// The choices so far, by voter; `None` for a player who chose nobody.
    pub ballots: BTreeMap<String, Option<String>>,
}

/// The result of a night or a day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundResult {
    /// The player who died.
    pub dead: Option<String>,
    /// How often each player was chosen by those who decide, in descending order.
    pub tally: Vec<(String, usize)>,
    /// The player whose card the seer learned, and whether it is a werewolf; `None` if there is no
    /// living seer.
    pub vision: Option<(String, bool)>,
}

impl Game {
    /// Creates a new game, before its first night.
    pub fn new(cards: BTreeMap<String, Card>) -> Self {
        let living = cards.keys().cloned().collect();
        Self {
            cards,
            living,
            time: Time::Night,
            round: 1,
            ballots: BTreeMap::new(),
        }
    }

    /// Returns the living players with this card.
    pub fn living_with(&self, card: Card) -> Vec<String> {
        self.living
            .iter()
            .filter(|name| self.cards.get(*name) == Some(&card))
            .cloned()
            .collect()
    }

    /// Returns the players whose ballots are needed.
    fn voters(&self) -> Vec<String> {
        match self.time {
            Time::Night => [
                self.living_with(Card::Werewolf),
                self.living_with(Card::Seer),
            ]
            .concat(),
            Time::Day => self.living.iter().cloned().collect(),
        }
    }

    /// Records a ballot. A choice of somebody who is not alive counts as none. Ballots of players
    /// who are not asked are ignored, and so are second ones.
    pub fn vote(&mut self, voter: &str, choice: Option<String>) {
        if self.voters().iter().any(|name| name == voter) {
            let choice = choice.filter(|name| self.living.contains(name));
            self.ballots.entry(voter.to_owned()).or_insert(choice);
        }
    }

    /// Returns whether all ballots are recorded.
    pub fn is_decided(&self) -> bool {
        self.voters()
            .iter()
            .all(|voter| self.ballots.contains_key(voter))
    }

    /// Counts the ballots and proceeds to the next night or day.
    pub fn finish_phase(&mut self) -> RoundResult {
        let deciders = match self.time {
            Time::Night => self.living_with(Card::Werewolf),
            Time::Day => self.voters(),
        };
        let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
        for choice in deciders
            .iter()
            .filter_map(|voter| self.ballots.get(voter)?.as_ref())
        {
            *counts.entry(choice).or_default() += 1;
        }
        let mut tally: Vec<(String, usize)> = counts
            .into_iter()
            .map(|(name, count)| (name.clone(), count))
            .collect();
        // The sort is stable, so players with the same count stay in the order of their names.
        tally.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        // Nobody dies if there is a tie.
        let dead = match tally.as_slice() {
            [(first, most), rest @ ..] if rest.first().is_none_or(|(_, next)| next < most) => {
                Some(first.clone())
            }
            _ => None,
        };
        let seer = (self.time == Time::Night)
            .then(|| self.living_with(Card::Seer))
            .into_iter()
            .flatten()
            .next();
        let seen = seer.and_then(|seer| self.ballots.get(&seer)?.clone());
        let vision = seen.map(|name| {
            let wolf = self.cards.get(&name) == Some(&Card::Werewolf);
            (name, wolf)
        });
        if let Some(name) = &dead {
            self.living.remove(name);
        }
        self.ballots.clear();
        match self.time {
            Time::Night => self.time = Time::Day,
            Time::Day => {
                self.time = Time::Night;
                self.round += 1;
            }
        }
        RoundResult {
            dead,
            tally,
            vision,
        }
    }

    /// Returns how the game ended, if it has ended. `most` is the largest number of rounds.
    pub fn outcome(&self, most: u32) -> Option<End> {
        let wolves = self.living_with(Card::Werewolf).len();
        if wolves == 0 {
            Some(End::Village)
        } else if wolves * 2 >= self.living.len() {
            Some(End::Wolves)
        } else if self.round > most {
            Some(End::Nobody)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn game() -> Game {
        let card = |name: &str| match name {
            "W" | "V" => Card::Werewolf,
            "S" => Card::Seer,
            _ => Card::Villager,
        };
        Game::new(
            ["A", "B", "C", "S", "V", "W"]
                .map(|name| (name.to_owned(), card(name)))
                .into(),
        )
    }

    /// Plays ballots `AB`: A chooses B; `A-`: A chooses nobody.
    fn play(game: &mut Game, ballots: &str) -> RoundResult {
        for ballot in ballots.split(' ') {
            let (voter, choice) = ballot.split_at(1);
            game.vote(
                voter,
                Some(choice.to_owned()).filter(|choice| choice != "-"),
            );
        }
        assert!(game.is_decided(), "{ballots}");
        game.finish_phase()
    }

    #[test]
    fn at_night_the_wolves_decide_and_the_seer_sees() {
        let cases = [
            ("WA VA SW", Some("A"), Some(("W", true))),
            ("WA VB SB", None, Some(("B", false))),
            ("WA V- SA", Some("A"), Some(("A", false))),
            ("WX V- S-", None, None),
            // Ballots of those who are not asked, and second ones, change nothing.
            ("AB WA WC VA BC SC", Some("A"), Some(("C", false))),
        ];
        for (ballots, dead, vision) in cases {
            let verdict = play(&mut game(), ballots);
            assert_eq!(verdict.dead.as_deref(), dead, "{ballots}");
            assert_eq!(
                verdict
                    .vision
                    .as_ref()
                    .map(|(name, wolf)| (name.as_str(), *wolf)),
                vision,
                "{ballots}"
            );
        }
    }

    #[test]
    fn by_day_all_vote_and_a_tie_spares() {
        let cases = [
            ("AW BW CW SA VA WA", None),
            ("AW BW CW SW VA WA", Some("W")),
            ("A- B- C- S- V- WB", Some("B")),
            ("A- B- C- S- V- W-", None),
        ];
        for (ballots, dead) in cases {
            let mut game = game();
            play(&mut game, "W- V- S-");
            assert_eq!(play(&mut game, ballots).dead.as_deref(), dead, "{ballots}");
            assert_eq!((game.time, game.round), (Time::Night, 2));
        }
    }

    #[test]
    fn it_ends_when_one_side_has_won_or_it_has_lasted_too_long() {
        let cases = [
            ("ABCSVW", None),
            ("ABCS", Some(End::Village)),
            ("AVW", Some(End::Wolves)),
            ("AW", Some(End::Wolves)),
        ];
        for (living, end) in cases {
            let mut game = game();
            game.living.retain(|name| living.contains(name.as_str()));
            assert_eq!(game.outcome(3), end, "{living}");
        }
        let mut game = game();
        game.round = 4;
        assert_eq!(game.outcome(3), Some(End::Nobody));
    }
}
