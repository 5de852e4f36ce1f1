//! Arithmetic expressions: numbers, the operators `+ - * / ^`, and parentheses.

/// The maximum depth of parentheses, signs and powers.
const MAX_DEPTH: usize = 100;

/// Computes the value of an expression.
///
/// # Errors
/// Returns what is wrong with it, or that its value is not a number.
pub fn evaluate(text: &str) -> Result<f64, String> {
    let mut parser = Parser {
        text,
        at: 0,
        depth: 0,
    };
    let value = parser.sum().map_err(|why| parser.describe(&why))?;
    if parser.peek().is_some() {
        return Err(parser.describe("an operator is missing"));
    }
    if !value.is_finite() {
        return Err(format!(
            "computing `{text}`: the value is not a finite number"
        ));
    }
    Ok(value)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn describe(&self, why: &str) -> String {
        format!(
            "computing `{}`: {why} at character {}",
            self.text,
            self.at + 1
        )
    }

    /// Returns the next character that is not a space.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    /// Skips the next character if it is one of these, and returns it.
    fn take(&mut self, operators: &[char]) -> Option<char> {
        let found = self.peek().filter(|c| operators.contains(c))?;
        self.at += found.len_utf8();
        Some(found)
    }

    fn sum(&mut self) -> Result<f64, String> {
        let mut value = self.product()?;
        while let Some(operator) = self.take(&['+', '-']) {
            let other = self.product()?;
            value = if operator == '+' {
                value + other
            } else {
                value - other
            };
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut value = self.signed()?;
        while let Some(operator) = self.take(&['*', '/']) {
            let other = self.signed()?;
            value = if operator == '*' {
                value * other
            } else {
                value / other
            };
        }
        Ok(value)
    }

    /// Reads a number with its sign. A power binds tighter than the sign: `-2 ^ 2` is -4.
    fn signed(&mut self) -> Result<f64, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("it is nested too deep".into());
        }
        let value = match self.take(&['-', '+']) {
            Some('-') => -self.signed()?,
            Some(_) => self.signed()?,
            None => self.power()?,
        };
        self.depth -= 1;
        Ok(value)
    }

    fn power(&mut self) -> Result<f64, String> {
        let base = self.operand()?;
        match self.take(&['^']) {
            Some(_) => Ok(base.powf(self.signed()?)),
            None => Ok(base),
        }
    }

    fn operand(&mut self) -> Result<f64, String> {
        if self.take(&['(']).is_some() {
            let value = self.sum()?;
            return match self.take(&[')']) {
                Some(_) => Ok(value),
                None => Err("a closing parenthesis is missing".into()),
            };
        }
        self.peek();
        let rest = &self.text[self.at..];
        let is_part = |c: char| c.is_ascii_digit() || c == '.';
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let number = rest[..length].parse();
        let number = number.map_err(|_| "a number is missing".to_owned())?;
        self.at += length;
        Ok(number)
    }
}
