//! `werewolf-moderator`: runs a game of werewolf. It asks the players, counts their ballots, tells
//! each of them what it may know, and writes the story.
//!
//! The game is stored in the role's private state, so other roles cannot see it. The rules are in
//! `game` and the texts in `story`; the players are `werewolf-player`.

mod game;
mod story;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strata_action::environment::{Emission, emit};
use strata_action::{Action, Context, Failure, Message, Output, action, files, state};
use werewolf::{Ask, Ballot, Step};

pub use game::{Card, End, Game, RoundResult, Time};

/// The key of the game in the role's state.
const KEY: &str = "game";

/// The game's `config` in the team file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The players and their cards.
    pub cards: BTreeMap<String, Card>,
    /// The group of the werewolves.
    pub pack: String,
    /// The guest path to which the story is written.
    pub story: String,
    /// The number of days after which the game ends without a winner.
    #[serde(default = "default_days")]
    pub most_days: u32,
}

/// The bound is needed because models that never agree would play for ever.
fn default_days() -> u32 {
    12
}

/// The game and its story.
#[derive(Serialize, Deserialize)]
struct SavedGame {
    game: Game,
    /// The paragraphs of the story so far.
    story: Vec<String>,
    /// Whether the game is over.
    over: bool,
}

/// The action.
pub struct Moderate;

impl Action for Moderate {
    type Config = Config;
    type Data = ();

    const CONFIG_SCHEMA: Option<&'static str> = Some(include_str!("../config.schema.json"));
    const NEEDS: &'static [&'static str] = &["files"];

    fn run(cx: &Context<Config>) -> Result<Output, Failure> {
        let (mut table, said) = match state::role().get(KEY)? {
            None => start_game(cx)?,
            Some(table) => continue_game(cx, table)?,
        };
        if let (Some(end), false) = (table.game.outcome(cx.config.most_days), table.over) {
            table.over = true;
            table.story.push(story::end(&table.game, end));
        }
        files::write(&cx.config.story, table.story.join("\n\n") + "\n")?;
        state::role().set(KEY, &table)?;
        let last = if table.over {
            table.story.last().cloned()
        } else {
            None
        };
        Ok(Output::new(last.unwrap_or(said)))
    }
}

action!(Moderate);

/// Starts the game with the first night.
fn start_game(cx: &Context<Config>) -> Result<(SavedGame, String), Failure> {
    let game = Game::new(cx.config.cards.clone());
    if game.outcome(cx.config.most_days).is_some() {
        return Err(Failure::error(
            "dealing the cards: there must be werewolves, and more others than werewolves",
        ));
    }
    let story = vec![story::title(&cx.text(), &game), story::night(&game)];
    ask_at_night(cx, &game)?;
    let said = story::headline(&game);
    Ok((
        SavedGame {
            game,
            story,
            over: false,
        },
        said,
    ))
}

/// Processes the messages of the players, and proceeds when all of them have chosen.
fn continue_game(
    cx: &Context<Config>,
    mut table: SavedGame,
) -> Result<(SavedGame, String), Failure> {
    for message in &cx.news {
        record_message(&mut table, message);
    }
    if table.over || !table.game.is_decided() {
        return Ok((table, "listens".into()));
    }
    let seer = table.game.living_with(Card::Seer).into_iter().next();
    let closed = table.game.time;
    let verdict = table.game.finish_phase();
    table
        .story
        .push(story::verdict(&table.game, closed, &verdict));
    let mut said = story::public(closed, &verdict);
    if table.game.outcome(cx.config.most_days).is_none() {
        match table.game.time {
            Time::Night => {
                table.story.push(story::night(&table.game));
                said = format!("{said} {}", story::headline(&table.game));
                // The result of the day is announced in the next morning, when the players can talk
                // about it.
                state::role().set("dusk", &story::public(closed, &verdict))?;
                ask_at_night(cx, &table.game)?;
            }
            Time::Day => {
                table.story.push(story::day(&table.game));
                let vision = verdict
                    .vision
                    .as_ref()
                    .zip(seer.filter(|seer| table.game.living.contains(seer)));
                if let Some(((name, wolf), seer)) = vision {
                    emit(&Emission::new(story::vision(name, *wolf)).to(seer))?;
                }
                ask_by_day(cx, &table.game, &said)?;
            }
        }
    }
    Ok((table, said))
}

/// Records a speech or a ballot. Other messages are ignored.
fn record_message(table: &mut SavedGame, message: &Message) {
    let name = &message.sent_from;
    if let Ok(Ballot { choice }) = message.parse() {
        table.game.vote(name, choice);
    } else if message.parse::<Ask>().is_ok() && table.game.living.contains(name) {
        table
            .story
            .push(story::speech(table.game.time, name, &message.content));
    }
}

/// Asks the werewolves and the seer.
fn ask_at_night(cx: &Context<Config>, game: &Game) -> Result<(), Failure> {
    let Config { pack, .. } = &cx.config;
    let wolves = game.living_with(Card::Werewolf);
    let prey: Vec<String> = game
        .living
        .iter()
        .filter(|name| !wolves.contains(name))
        .cloned()
        .collect();
    let when = format!("Night {}", game.round);
    let ask = Ask {
        step: Step::Speak,
        when: when.clone(),
        about: "whom to kill tonight".into(),
        who: wolves,
        choices: prey,
        hearers: vec![pack.clone(), cx.role.name.clone()],
    };
    emit(
        &Emission::new(story::to_pack(game, &ask.choices))
            .to(pack)
            .data(ask)?,
    )?;
    for seer in game.living_with(Card::Seer) {
        let others: Vec<String> = game
            .living
            .iter()
            .filter(|name| **name != seer)
            .cloned()
            .collect();
        let ask = Ask {
            step: Step::Choose,
            when: when.clone(),
            about: "whose heart to look into tonight".into(),
            who: vec![seer.clone()],
            choices: others,
            hearers: Vec::new(),
        };
        emit(&Emission::new(story::to_seer(game)).to(seer).data(ask)?)?;
    }
    Ok(())
}

/// Announces the result of the night to the living, and asks them to talk and vote.
fn ask_by_day(cx: &Context<Config>, game: &Game, dawn: &str) -> Result<(), Failure> {
    let living: Vec<String> = game.living.iter().cloned().collect();
    let mut hearers = living.clone();
    hearers.push(cx.role.name.clone());
    let dusk: Option<String> = state::role().get("dusk")?;
    let ask = Ask {
        step: Step::Speak,
        when: format!("Day {}", game.round),
        about: "who of you shall hang".into(),
        who: living.clone(),
        choices: living.clone(),
        hearers,
    };
    let text = story::to_village(game, dusk.as_deref(), dawn);
    let mut emission = Emission::new(text).data(ask)?;
    emission.to = living;
    emit(&emission)?;
    Ok(())
}
