//! Parses the fences of a page that are to be tested, in order.

/// A fence to be tested.
pub enum Fence {
    /// A file to write.
    File {
        /// Its path in the directory of the page.
        name: String,
        /// Its content.
        text: String,
    },
    /// A part of a team file. It must be valid TOML.
    Toml(String),
    /// Commands to run.
    Console(Vec<Command>),
}

/// A command of a page.
pub struct Command {
    /// The command line.
    pub line: String,
    /// The expected exit code.
    pub code: i32,
    /// The expected output; empty if it is not shown.
    pub output: String,
}

impl Command {
    /// Returns the command as it is written in the page.
    pub fn source(&self) -> String {
        self.source_with(&self.output)
    }

    /// Returns the command as it is written in the page with another output.
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

/// Returns the fences of a page. Fails for fences in the language of a shell, because they would
/// not be tested.
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
