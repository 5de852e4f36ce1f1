//! What of a page is tried: its fences, in order.

/// A fence that says something to do.
pub enum Fence {
    /// A file to write.
    File {
        /// Its path in the page's folder.
        name: String,
        /// What is in it.
        text: String,
    },
    /// A part of a team file: at least it has to be TOML.
    Toml(String),
    /// Commands to run.
    Console(Vec<Command>),
}

/// A command, as it stands in a page.
pub struct Command {
    /// What is run.
    pub line: String,
    /// The exit code it shall have.
    pub code: i32,
    /// What it shall write; empty where that is not shown.
    pub output: String,
}

impl Command {
    /// How it stands in the page.
    pub fn source(&self) -> String {
        self.source_with(&self.output)
    }

    /// How it would stand there with another output.
    pub fn source_with(&self, output: &str) -> String {
        let code = if self.code == 0 {
            String::new()
        } else {
            format!("? {}\n", self.code)
        };
        let line = self.line.replace('\n', "\n> ");
        format!("$ {line}\n{code}{output}")
    }
}

/// The fences of a page. Those in a shell's language are refused: they would not be tried.
pub fn fences(page: &str) -> Vec<Fence> {
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(info) = line.strip_prefix("```") else {
            continue;
        };
        let text: String = lines
            .by_ref()
            .take_while(|line| !line.starts_with("```"))
            .map(|l| format!("{l}\n"))
            .collect();
        let mut words = info.split(',');
        let language = words.next().unwrap_or_default();
        assert!(
            !matches!(language, "sh" | "bash" | "shell"),
            "commands are written as `console`:\n{text}"
        );
        match (words.find_map(|word| word.strip_prefix("file=")), language) {
            (Some(name), _) => found.push(Fence::File {
                name: name.to_owned(),
                text,
            }),
            (None, "console") => found.push(Fence::Console(commands(&text))),
            (None, "toml") => found.push(Fence::Toml(text)),
            (None, _) => {}
        }
    }
    found
}

fn commands(text: &str) -> Vec<Command> {
    let mut found: Vec<Command> = Vec::new();
    for line in text.lines() {
        let begun = found.last_mut();
        match (line.strip_prefix("$ "), begun) {
            (Some(line), _) => found.push(Command {
                line: line.to_owned(),
                code: 0,
                output: String::new(),
            }),
            (None, Some(command)) if command.output.is_empty() && line.starts_with("> ") => {
                command.line.push('\n');
                command.line.push_str(&line[2..]);
            }
            (None, Some(command)) if command.output.is_empty() && line.starts_with("? ") => {
                command.code = line[2..]
                    .trim()
                    .parse()
                    .unwrap_or_else(|error| panic!("`{line}`: {error}"));
            }
            (None, Some(command)) => {
                command.output.push_str(line);
                command.output.push('\n');
            }
            (None, None) => panic!("`{line}` is the output of no command"),
        }
    }
    found
}
