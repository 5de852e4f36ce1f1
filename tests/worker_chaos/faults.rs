//! The workers, their server, and what happens to them.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::database_server::{Flow, Proxy, Server};
use crate::process::{Process, Signal};
use crate::random_teams::rng::Rng;
use crate::workspace::Workspace;
use crate::wrong_clock::shift_clock;

pub const WORKERS: usize = 3;
/// By how many seconds the clock of each worker is ahead.
const CLOCK_SHIFTS_S: [i64; WORKERS] = [0, 3600, -3600];
/// How many runs each worker takes at a time.
pub const ROOM: usize = 4;
/// By how much a standby lags that takes the place of the server.
const LAG: Duration = Duration::from_secs(1);
/// How long something lasts, in seconds. The last one is longer than it takes to be taken for dead.
const TIMES_S: [u64; 3] = [1, 3, 12];

/// Returns the directory in which a worker keeps the workspaces of runs.
pub fn workspaces(n: usize) -> String {
    format!("workspaces-{n}")
}

/// The workers and their server.
pub struct Cluster<'a> {
    server: Server,
    proxies: Vec<Proxy>,
    workers: Vec<Option<Process>>,
    home: &'a Workspace,
    /// How often a standby that lacked the last commits took the place of the server.
    pub went_back: usize,
}

impl<'a> Cluster<'a> {
    /// Starts the workers in a directory.
    pub fn start(server: Server, home: &'a Workspace) -> Self {
        let proxies = (0..WORKERS).map(|_| Proxy::start(&server.directory));
        let mut cluster = Self {
            proxies: proxies.collect(),
            workers: (0..WORKERS).map(|_| None).collect(),
            server,
            home,
            went_back: 0,
        };
        cluster.start_missing();
        cluster
    }

    /// Starts the workers that do not run, as whatever supervises them would: one ends if it cannot connect
    /// when it starts.
    pub fn start_missing(&mut self) {
        for n in 0..WORKERS {
            let worker = self.workers[n].as_mut();
            if worker.is_none_or(|worker| !worker.is_running()) {
                self.start_worker(n);
            }
        }
    }

    fn start_worker(&mut self, n: usize) {
        let url = self.proxies[n].url();
        let (workspaces, room) = (workspaces(n), ROOM.to_string());
        let mut worker = self.home.command(&[
            "worker",
            "--database",
            &url,
            "--room",
            &room,
            "--policy",
            "policy.toml",
            "--workspaces",
            &workspaces,
            "--quiet",
        ]);
        shift_clock(&mut worker, CLOCK_SHIFTS_S[n]);
        self.workers[n] = Some(Process::spawn(worker));
    }

    /// Lets everything pass between the workers and the server, and has all workers run.
    pub fn heal(&mut self) {
        for flow in self.proxies.iter().flat_map(Proxy::flows) {
            flow.stall(false);
            flow.slow_down(false);
        }
        self.start_missing();
    }

    /// Stops the workers, and waits for their end.
    pub fn stop(&mut self) {
        for worker in self.workers.iter_mut().filter_map(Option::take) {
            worker.signal(Signal::TERM);
            worker.end();
        }
    }

    /// Injects one fault. Returns how many workers it concerns.
    pub fn disturb(&mut self, random: &mut Rng) -> usize {
        self.start_missing();
        let n = random.below(WORKERS as u64) as usize;
        let time = Duration::from_secs(TIMES_S[random.below(3) as usize]);
        match random.below(18) {
            0..=2 => {
                if let Some(worker) = self.workers[n].take() {
                    worker.kill();
                }
                self.start_worker(n);
            }
            3..=4 => {
                if let Some(worker) = self.workers[n].take() {
                    worker.signal(Signal::TERM);
                    worker.end();
                }
                self.start_worker(n);
            }
            5..=6 => self.suspend(n, time),
            7..=8 => self.proxies[n].cut(),
            9 => {
                self.proxies[n].stall(true);
                thread::sleep(Duration::from_millis(200 + random.below(2000)));
                self.proxies[n].stall(false);
            }
            // What is on the way arrives when the time is over, unless the connection was given up.
            10..=11 => for_a_while(
                vec![Arc::clone(&self.proxies[n].to_server)],
                time,
                Flow::stall,
            ),
            12..=13 => for_a_while(
                vec![Arc::clone(&self.proxies[n].from_server)],
                time,
                Flow::stall,
            ),
            14..=15 => for_a_while(self.proxies[n].flows().into(), time, Flow::slow_down),
            16 => {
                // The server answers nobody.
                let flows = self.proxies.iter().flat_map(Proxy::flows);
                for_a_while(flows.collect(), time, Flow::stall);
                return WORKERS;
            }
            _ => {
                self.disturb_server(random);
                return WORKERS;
            }
        }
        1
    }

    fn disturb_server(&mut self, random: &mut Rng) {
        match random.below(4) {
            0 => self.server.restart("QUIT"),
            1 => self.server.restart("KILL"),
            2 => self.server.restart("PROMOTE"),
            _ => {
                self.server.make_lagging_standby();
                thread::sleep(LAG);
                self.server.restart("PROMOTE");
                self.went_back += 1;
            }
        }
    }

    /// Suspends a worker for a while, and goes on meanwhile.
    fn suspend(&self, n: usize, pause: Duration) {
        let Some(worker) = &self.workers[n] else {
            return;
        };
        worker.signal(Signal::STOP);
        let pid = rustix::process::Pid::from_raw(worker.pid() as i32).unwrap();
        let handle =
            rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
        thread::spawn(move || {
            thread::sleep(pause);
            // It may have been killed.
            let _ = rustix::process::pidfd_send_signal(handle, Signal::CONT);
        });
    }
}

/// Disturbs flows for a while, and goes on meanwhile.
fn for_a_while(flows: Vec<Arc<Flow>>, time: Duration, disturb: fn(&Flow, bool)) {
    for flow in &flows {
        disturb(flow, true);
    }
    thread::spawn(move || {
        thread::sleep(time);
        for flow in &flows {
            disturb(flow, false);
        }
    });
}
