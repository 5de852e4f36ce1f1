//! The texts of the game: the story, and what each player is told. Villagers are told of *beasts*;
//! cards and werewolves are mentioned only in the story and to the werewolves.

use crate::game::{Card, End, Game, RoundResult, Time};

/// Returns the opening of the story.
pub fn title(idea: &str, game: &Game) -> String {
    let players: Vec<&str> = game.cards.keys().map(String::as_str).collect();
    let idea = idea.trim();
    format!(
        "# {}\n\nIn the village live {}.",
        if idea.is_empty() { "Werewolf" } else { idea },
        list(&players)
    )
}

/// Returns the beginning of a night.
pub fn night(game: &Game) -> String {
    let wolves = game.living_with(Card::Werewolf);
    let eyes = match wolves.len() {
        1 => "One pair of eyes opens".to_owned(),
        2 => "Two pairs of eyes open".to_owned(),
        count => format!("{count} pairs of eyes open"),
    };
    format!(
        "## Night {}\n\nThe village sleeps. {eyes} in the dark: {}.",
        game.round,
        list(&wolves)
    )
}

/// Returns the beginning of a day.
pub fn day(game: &Game) -> String {
    let living: Vec<&String> = game.living.iter().collect();
    format!(
        "## Day {}\n\nThe living meet in the square: {}.",
        game.round,
        list(&living)
    )
}

/// Returns a speech of a player.
pub fn speech(time: Time, name: &str, text: &str) -> String {
    let verb = if time == Time::Night {
        "whispers"
    } else {
        "says"
    };
    format!(
        "**{name}** {verb}: {}",
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    )
}

/// Returns the result of a night or a day, with the cards.
pub fn verdict(game: &Game, closed: Time, verdict: &RoundResult) -> String {
    let mut text = public(closed, verdict);
    if let Some(card) = verdict.dead.as_ref().and_then(|name| game.cards.get(name)) {
        text.push_str(&format!(" The card: {}.", card_name(*card)));
    }
    if let Some((name, wolf)) = &verdict.vision {
        let what = if *wolf { "a werewolf" } else { "no werewolf" };
        text.push_str(&format!(
            " The seer has looked into the heart of {name}: {what}."
        ));
    }
    format!("*{text}*")
}

/// Returns the end of the story.
pub fn end(game: &Game, end: End) -> String {
    let how = match end {
        End::Village => "The last werewolf is dead: the village has won.",
        End::Wolves => "The werewolves are no longer outnumbered: they have won.",
        End::Nobody => "It has lasted too long: nobody has won.",
    };
    let line = |(name, card): (&String, &Card)| {
        let fate = if game.living.contains(name) {
            "alive"
        } else {
            "dead"
        };
        format!("- {name}: {}, {fate}", card_name(*card))
    };
    format!(
        "{how}\n\n{}",
        game.cards.iter().map(line).collect::<Vec<_>>().join("\n")
    )
}

/// Returns the part of the result of a night or a day that everybody may know.
pub fn public(closed: Time, verdict: &RoundResult) -> String {
    let counts: Vec<String> = verdict
        .tally
        .iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    match (closed, &verdict.dead) {
        (Time::Night, Some(name)) => format!("In the morning {name} lies dead by the well."),
        (Time::Night, None) => "In the morning all are alive.".into(),
        (Time::Day, _) if counts.is_empty() => "Nobody is accused, and nobody hangs.".into(),
        (Time::Day, Some(name)) => {
            format!("The village votes: {}. {name} hangs.", counts.join(", "))
        }
        (Time::Day, None) => format!(
            "The village votes: {}. A tie: nobody hangs.",
            counts.join(", ")
        ),
    }
}

/// Returns the current night or day, for the operator.
pub fn headline(game: &Game) -> String {
    match game.time {
        Time::Night => format!("Night {} falls.", game.round),
        Time::Day => format!("Day {} breaks.", game.round),
    }
}

/// Returns what the werewolves are told.
pub fn to_pack(game: &Game, prey: &[String]) -> String {
    format!(
        "Night {}. The others sleep: {}. Agree on one of them.",
        game.round,
        list(prey)
    )
}

/// Returns what the seer is told.
pub fn to_seer(game: &Game) -> String {
    format!(
        "Night {}. You wake while the others sleep, and may look into one heart.",
        game.round
    )
}

/// Returns what the seer learns.
pub fn vision(name: &str, wolf: bool) -> String {
    let what = if wolf { "is a beast" } else { "is no beast" };
    format!("Last night you saw it: {name} {what}.")
}

/// Returns what the living are told in the morning.
pub fn to_village(game: &Game, dusk: Option<&str>, dawn: &str) -> String {
    let living: Vec<&String> = game.living.iter().collect();
    let dusk = dusk
        .map(|dusk| format!("Yesterday: {dusk} "))
        .unwrap_or_default();
    format!(
        "{dusk}{dawn} Day {}: alive are {}. Beasts are among you.",
        game.round,
        list(&living)
    )
}

fn card_name(card: Card) -> &'static str {
    match card {
        Card::Villager => "villager",
        Card::Seer => "seer",
        Card::Werewolf => "werewolf",
    }
}

fn list<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.as_slice() {
        [] => "nobody".into(),
        [one] => (*one).into(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}
