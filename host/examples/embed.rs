//! A team inside of one's own program: started, watched, spoken to, stopped, and taken up again.
//!
//! `cargo run --example embed -- plugins/teams/snake/team.toml`

use strata_host::manifest::operator::in_force;
use strata_host::{LiveEnvironment, Overrides, Resume, Start, WhenIdle};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let team = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "plugins/teams/snake/team.toml".into());
    let storage = tempfile::tempdir()?;
    let overrides = Overrides {
        operators: in_force(None)?,
        ..Overrides::default()
    };

    let mut environment =
        LiveEnvironment::create(Start::new(team, storage.path(), overrides.clone()))?;
    let mut events = environment.events()?;
    environment.start(WhenIdle::End)?;
    let status = environment.ended().await?;
    while let Some(line) = events.next_now()? {
        println!("{}", line.to_json());
    }
    println!("the team is {}", status.name());
    // Another environment can take it up only once this one has let go of the directory.
    drop(environment);

    let saved = Resume {
        when_idle: WhenIdle::Stay,
        ..Resume::new(storage.path(), overrides)
    };
    let mut environment = LiveEnvironment::load(saved)?;
    environment.start(WhenIdle::Stay)?;
    environment.idle().await;
    let sent = environment
        .say("nobody listens to this", "well done")
        .await?;
    println!("message {} reached {:?}", sent.id, sent.to);
    println!("the team is {}", environment.stop().await?.name());
    Ok(())
}
