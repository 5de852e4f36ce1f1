//! Teams of one process that share a log: each runs, ends, is killed and resumed as if it were
//! alone.

use std::path::Path;

use strata_host::manifest::Overrides;
use strata_host::{GroupLog, LiveEnvironment, Resume, Start, Status, WhenIdle};

use crate::live::{GREETER, in_runtime, said};
use crate::stream;
use crate::workspace::Workspace;

/// Returns the number of links to a log in a storage directory.
fn links(storage: &Path) -> usize {
    let names = std::fs::read_dir(storage)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    names
        .filter(|name| name.to_string_lossy().starts_with("team.shared-log-"))
        .count()
}

/// Starts environments of greeters that share a log.
fn started(places: &[Workspace], group: &GroupLog) -> Vec<LiveEnvironment> {
    let create = |place: &Workspace| {
        let (team, storage, overrides) = (
            place.path("team.toml"),
            place.path("store"),
            Overrides::default(),
        );
        let start = Start {
            group: Some(group.clone()),
            ..Start::new(team, storage, overrides)
        };
        let mut environment = LiveEnvironment::create(start).unwrap();
        environment.start(WhenIdle::Stay).unwrap();
        environment
    };
    places.iter().map(create).collect()
}

async fn say(environments: &[LiveEnvironment], text: &str) {
    let sent = environments
        .iter()
        .map(|environment| environment.send(said(text)));
    futures_util::future::try_join_all(sent).await.unwrap();
}

fn greeted(place: &Workspace) -> usize {
    stream::of_kind(&place.recorded(), "action-finished").len()
}

#[test]
fn teams_that_share_a_log_leave_no_links_and_can_share_another() {
    let places: Vec<Workspace> = (0..4).map(|_| Workspace::with(GREETER)).collect();
    let group = GroupLog::new();
    in_runtime(async {
        let mut environments = started(&places, &group);
        for n in 0..20 {
            say(&environments, &n.to_string()).await;
        }
        assert!(places.iter().all(|place| links(&place.path("store")) == 1));
        for environment in &mut environments {
            environment.idle().await;
            assert_eq!(environment.stop().await.unwrap(), Status::Done);
        }
    });
    for place in &places {
        assert_eq!((links(&place.path("store")), greeted(place)), (0, 21));
    }
    let (storage, overrides) = (places[0].path("store"), Overrides::default());
    in_runtime(async {
        let resume = Resume {
            when_idle: WhenIdle::Stay,
            group: Some(group.clone()),
            ..Resume::new(&storage, overrides)
        };
        let mut environment = LiveEnvironment::load(resume).unwrap();
        assert_eq!(links(&storage), 1);
        environment.start(WhenIdle::Stay).unwrap();
        environment.say("UserRequirement", "again").await.unwrap();
        environment.idle().await;
        assert_eq!(environment.stop().await.unwrap(), Status::Done);
    });
    assert_eq!((links(&storage), greeted(&places[0])), (0, 22));
}

#[test]
fn a_team_that_was_killed_while_it_shared_a_log_is_resumed_by_the_command_line() {
    let places: Vec<Workspace> = (0..3).map(|_| Workspace::with(GREETER)).collect();
    let group = GroupLog::new();
    in_runtime(async {
        let environments = started(&places, &group);
        for n in 0..5 {
            say(&environments, &n.to_string()).await;
        }
        for environment in &environments {
            environment.idle().await;
        }
        // The state that a process leaves if it is killed now.
        for place in &places {
            std::fs::create_dir(place.path("cut-off")).unwrap();
            for entry in std::fs::read_dir(place.path("store")).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap();
                if name != "team.lock" && name != "team.db-shm" {
                    std::fs::copy(&path, place.path("cut-off").join(name)).unwrap();
                }
            }
        }
    });
    for place in &places {
        assert_eq!(links(&place.path("cut-off")), 1);
        place
            .host(&["send", "cut-off", "--cause", "UserRequirement", "later"])
            .expect(0);
        assert_eq!(links(&place.path("cut-off")), 0);
        let resumed = place
            .host(&["run", "--recover_path", "cut-off", "--events", "-"])
            .expect(0);
        let told = stream::of_kind(&resumed.events(), "action-finished").len();
        assert_eq!(told, 1, "the others were greeted before");
        let all = place.host(&["events", "cut-off"]).expect(0);
        assert_eq!(stream::of_kind(&all.events(), "action-finished").len(), 7);
    }
}
