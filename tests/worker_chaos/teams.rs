//! The teams of the runs: what they do that must not be lost or done twice, and how they end if nothing
//! disturbs them. All of them also take in messages.

/// How long the model takes for each reply, and a server for each order.
const PAUSE_MS: u64 = 1500;
/// The directory of the team's files, and what is in it at the start.
pub const DIRECTORY: &str = "in";
pub const GIVEN_FILE: &str = "in/given.txt";
/// What the directory contains at the end.
pub const LEFT_FILES: [&str; 2] = ["first.txt", "second.txt"];

/// What a team does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TeamKind {
    /// Paid calls in a chain, a fan-out and a join.
    Calls,
    /// Questions that are answered from outside.
    Questions,
    /// Writes with keys of their own.
    Writes,
    /// Files that are read by later actions.
    Files,
}

impl TeamKind {
    /// Returns the kind of a run's team.
    pub fn of(run: u64) -> Self {
        match run % 4 {
            0 => Self::Calls,
            1 => Self::Questions,
            2 => Self::Writes,
            _ => Self::Files,
        }
    }

    /// Returns the prompts of its paid calls, each of which is asked for once.
    pub fn prompts(self) -> &'static [&'static str] {
        match self {
            Self::Calls => &["one", "two", "left", "right", "end"],
            Self::Questions => &["one", "end"],
            Self::Writes => &["end"],
            Self::Files => &["one", "two", "end"],
        }
    }

    /// Returns what it asks people.
    pub fn questions(self) -> &'static [&'static str] {
        match self {
            Self::Questions => &["how many?", "how large?"],
            _ => &[],
        }
    }

    /// Returns the keys of its writes.
    pub fn keys(self, run: &str) -> Vec<String> {
        match self {
            Self::Writes => ["first", "second"]
                .map(|key| format!("{run}-{key}"))
                .to_vec(),
            _ => Vec::new(),
        }
    }

    /// Returns what its last action says. `outcomes` are the answers to its questions, or to its writes.
    pub fn end(self, run: &str, outcomes: &[String]) -> String {
        match (self, outcomes) {
            (Self::Calls, _) => format!("re: {run} left,re: {run} right re: {run} end"),
            (Self::Questions, [many, large]) => {
                format!("re: {run} one,{many} {large},re: {run} end")
            }
            (Self::Writes, [first, second]) => format!("{first} re: {run} end,{second}"),
            (Self::Files, _) => format!(
                "re: {run} two,{} {},{},re: {run} end",
                written(run, "first.txt"),
                written(run, "first.txt"),
                written(run, "second.txt")
            ),
            other => panic!("{run}: {other:?}"),
        }
    }

    /// Returns the team file. Its model, and where it orders, are at this port.
    pub fn team(self, run: &str, port: u16) -> String {
        let mut team = Team {
            run,
            port,
            text: head(run, port),
        };
        match self {
            Self::Calls => team.add_calls(),
            Self::Questions => team.add_questions(),
            Self::Writes => team.add_writes(&self.keys(run)),
            Self::Files => team.add_files(),
        }
        team.text += "[[role]]\nname = \"N\"\nwatch = [\"Note\"]\n[[role.action]]\nname = \"note\"\n\
                      component = \"probe.wasm\"\nconfig = { steps = [{ say = \"noted\" }] }\n";
        team.text
    }
}

/// Returns what a run writes to a file.
pub fn written(run: &str, file: &str) -> String {
    format!("{run} wrote {file}")
}

fn head(run: &str, port: u16) -> String {
    format!(
        "schema = \"strata.team/1\"\n[team]\nname = \"{run}\"\nidea = \"go\"\n[llm]\nprovider = \"openai\"\n\
         base_url = \"http://127.0.0.1:{port}/v1/slow/{PAUSE_MS}/{run}\"\nmodel = \"m\"\nretries = 0\nmax_tokens = 3000\n\
         price = {{ input = 1000.0, output = 1000.0 }}\n[limits]\nretries = 20\nbackoff = \"100ms\"\n"
    )
}

/// A team file that is written.
struct Team<'a> {
    run: &'a str,
    port: u16,
    text: String,
}

impl Team<'_> {
    /// Adds a role with an action of this name, which takes these steps and then says something. It watches
    /// for a label, unless it is at the end of a join.
    fn add_role(
        &mut self,
        role: &str,
        watch: Option<&str>,
        action: &str,
        steps: &[String],
        say: &str,
    ) {
        let watch = watch.map_or(String::new(), |label| format!("\"{label}\""));
        let (steps, port) = (steps.join(", "), self.port);
        let role = format!(
            "[[role]]\nname = \"{role}\"\nwatch = [{watch}]\n[[role.action]]\nname = \"{action}\"\n\
             component = \"probe.wasm\"\nconfig = {{ steps = [{steps}, {{ say = \"{say}\" }}] }}\n\
             [role.action.allow]\nllm = {{ models = [\"*\"] }}\n\
             http = [{{ host = \"127.0.0.1:{port}\", methods = [\"POST\"] }}]\n"
        );
        self.text += &role;
    }

    /// Lets the action that was added last use the team's files.
    fn allow_files(&mut self) {
        let granted =
            format!("dirs = [{{ host = \"{DIRECTORY}\", guest = \"/in\", write = true }}]\n");
        self.text += &granted;
    }

    /// Returns a paid call.
    fn call(&self, prompt: &str) -> String {
        format!("{{ llm = \"{} {prompt}\" }}", self.run)
    }

    fn add_calls(&mut self) {
        let steps = ["one", "two", "left", "right", "end"].map(|prompt| [self.call(prompt)]);
        let [one, two, left, right, end] = &steps;
        self.add_role("A", Some("UserRequirement"), "one", one, "{reads}");
        self.add_role("B", Some("one"), "two", two, "{inputs}");
        self.add_role("L", Some("two"), "left", left, "{reads}");
        self.add_role("R", Some("two"), "right", right, "{reads}");
        self.add_role("E", None, "end", end, "{inputs} {reads}");
        self.text += "[[route]]\nfrom = \"L\"\nto = [\"both\"]\n[[route]]\nfrom = \"R\"\nto = [\"both\"]\n\
                      [[join]]\nid = \"both\"\nfrom = [\"L\", \"R\"]\nto = \"E\"\n";
    }

    fn add_questions(&mut self) {
        let ask = |question: &str| format!("{{ ask = \"{question}\" }}");
        let [many, large] = ["how many?", "how large?"].map(ask);
        let one = [self.call("one"), many];
        let end = [large, self.call("end")];
        self.add_role("A", Some("UserRequirement"), "one", &one, "{reads}");
        self.add_role("E", Some("one"), "end", &end, "{inputs} {reads}");
    }

    fn add_writes(&mut self, keys: &[String]) {
        let (port, run) = (self.port, self.run);
        let write = |key: &String| {
            format!(
                "{{ http = \"http://127.0.0.1:{port}/v1/order/{PAUSE_MS}/{run}\", method = \"POST\", key = \"{key}\", \
                 body = \"{key}\" }}"
            )
        };
        let writes: Vec<String> = keys.iter().map(write).collect();
        let end = [self.call("end"), writes[1].clone()];
        self.add_role("A", Some("UserRequirement"), "one", &writes[..1], "{reads}");
        self.add_role("E", Some("one"), "end", &end, "{inputs} {reads}");
    }

    fn add_files(&mut self) {
        let read = |file: &str| format!("{{ read = \"/in/{file}\" }}");
        let write = |file: &str| {
            let text = written(self.run, file);
            format!("{{ write = \"/in/{file}\", text = \"{text}\" }}")
        };
        let [first, second] = LEFT_FILES;
        let one = [self.call("one"), read("given.txt"), write(first)];
        let two = [
            self.call("two"),
            read(first),
            "{ remove = \"/in/given.txt\" }".into(),
            write(second),
        ];
        let end = [read(first), read(second), self.call("end")];
        self.add_role("A", Some("UserRequirement"), "one", &one, "{reads}");
        self.allow_files();
        self.add_role("B", Some("one"), "two", &two, "{reads}");
        self.allow_files();
        self.add_role("E", Some("two"), "end", &end, "{inputs} {reads}");
        self.allow_files();
    }
}
