//! The grammar of the `labelSelector` parameter.

use std::collections::BTreeSet;

use super::{Operator, Requirement, SelectorError, check_key};
use crate::path::Path;

/// The requirements in the order in which they are written.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    let mut parser = Parser { tokens: tokens(text.as_bytes()), position: 0 };
    let mut requirements = Vec::new();
    loop {
        let (token, literal) = parser.peek();
        match token {
            Token::Identifier | Token::Not => {
                let requirement = parser.requirement().map_err(|error| {
                    SelectorError(format!("unable to parse requirement: {error}"))
                })?;
                requirements.push(requirement);
                let (token, literal) = parser.next();
                match token {
                    Token::End => return Ok(requirements),
                    Token::Comma => {
                        let (next, literal) = parser.peek();
                        if !matches!(next, Token::Identifier | Token::Not) {
                            return fail(literal, ", expected: identifier after ','");
                        }
                    }
                    _ => return fail(literal, ", expected: ',' or 'end of string'"),
                }
            }
            Token::End => return Ok(requirements),
            _ => return fail(literal, ", expected: !, identifier, or 'end of string'"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Error,
    End,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Identifier,
    In,
    Less,
    NotEquals,
    NotIn,
    Open,
}

fn keyword(text: &[u8]) -> Option<Token> {
    Some(match text {
        b")" => Token::Close,
        b"," => Token::Comma,
        b"!" => Token::Not,
        b"==" => Token::DoubleEquals,
        b"=" => Token::Equals,
        b">" => Token::Greater,
        b"in" => Token::In,
        b"<" => Token::Less,
        b"!=" => Token::NotEquals,
        b"notin" => Token::NotIn,
        b"(" => Token::Open,
        _ => return None,
    })
}

fn is_special(c: u8) -> bool {
    b"=!(),><".contains(&c)
}

fn is_space(c: u8) -> bool {
    b" \t\r\n".contains(&c)
}

/// The tokens, the last of which is [`Token::End`]. A zero byte ends a token, and the text when
/// it stands between tokens.
fn tokens(text: &[u8]) -> Vec<(Token, String)> {
    let (mut tokens, mut i) = (Vec::new(), 0);
    loop {
        while i < text.len() && is_space(text[i]) {
            i += 1;
        }
        let start = i;
        let token = match text.get(i) {
            None | Some(0) => {
                tokens.push((Token::End, String::new()));
                return tokens;
            }
            Some(c) if is_special(*c) => special(text, &mut i),
            Some(_) => {
                while i < text.len() && text[i] != 0 && !is_special(text[i]) && !is_space(text[i]) {
                    i += 1;
                }
                let literal = &text[start..i];
                if text.get(i) == Some(&0) {
                    i += 1;
                }
                let token = keyword(literal).unwrap_or(Token::Identifier);
                (token, String::from_utf8_lossy(literal).into_owned())
            }
        };
        tokens.push(token);
    }
}

/// The longest operator that starts here.
fn special(text: &[u8], i: &mut usize) -> (Token, String) {
    let start = *i;
    let mut last: Option<(Token, usize)> = None;
    while *i < text.len() && is_special(text[*i]) {
        *i += 1;
        match (keyword(&text[start..*i]), last) {
            (Some(token), _) => last = Some((token, *i)),
            (None, Some(_)) => {
                *i -= 1;
                break;
            }
            (None, None) => {}
        }
    }
    match last {
        Some((token, end)) => (token, String::from_utf8_lossy(&text[start..end]).into_owned()),
        None => {
            let literal = String::from_utf8_lossy(&text[start..*i]);
            (Token::Error, format!("error expected: keyword found '{literal}'"))
        }
    }
}

struct Parser {
    tokens: Vec<(Token, String)>,
    position: usize,
}

impl Parser {
    /// The current token, with `in` and `notin` read as identifiers.
    fn peek(&self) -> (Token, &str) {
        let (token, literal) = self.peek_keyword();
        match token {
            Token::In | Token::NotIn => (Token::Identifier, literal),
            _ => (token, literal),
        }
    }

    fn peek_keyword(&self) -> (Token, &str) {
        // The last token is the end, which stays the current one.
        let (token, literal) = &self.tokens[self.position.min(self.tokens.len() - 1)];
        (*token, literal)
    }

    fn next(&mut self) -> (Token, &str) {
        self.position += 1;
        let (token, literal) = &self.tokens[(self.position - 1).min(self.tokens.len() - 1)];
        match token {
            Token::In | Token::NotIn => (Token::Identifier, literal),
            _ => (*token, literal),
        }
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let mut negated = false;
        let (mut token, mut literal) = self.next();
        if token == Token::Not {
            negated = true;
            (token, literal) = self.next();
        }
        if token != Token::Identifier {
            return fail(literal, ", expected: identifier");
        }
        let key = literal.to_owned();
        if let Some(error) = check_key(&key, &Path::root()) {
            return Err(SelectorError(error.to_string()));
        }
        if negated {
            return Requirement::new(&key, Operator::DoesNotExist, vec![]);
        }
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Requirement::new(&key, Operator::Exists, vec![]);
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => self.exact_value()?,
        };
        Requirement::new(&key, operator, values.into_iter().collect())
    }

    fn operator(&mut self) -> Result<Operator, SelectorError> {
        let (token, literal) = self.peek_keyword();
        let operator = match token {
            Token::In => Operator::In,
            Token::Equals => Operator::Equals,
            Token::DoubleEquals => Operator::DoubleEquals,
            Token::Greater => Operator::GreaterThan,
            Token::Less => Operator::LessThan,
            Token::NotIn => Operator::NotIn,
            Token::NotEquals => Operator::NotEquals,
            _ => return fail(literal, ", expected: in, notin, =, ==, !=, gt, lt"),
        };
        self.position += 1;
        Ok(operator)
    }

    fn values(&mut self) -> Result<BTreeSet<String>, SelectorError> {
        let (token, literal) = self.next();
        if token != Token::Open {
            return fail(literal, " expected: '('");
        }
        let (token, literal) = self.peek();
        let first = literal.to_owned();
        match token {
            Token::Identifier | Token::Comma => {
                let values = self.identifiers()?;
                match self.next().0 {
                    Token::Close => Ok(values),
                    _ => fail(&first, ", expected: ')'"),
                }
            }
            Token::Close => {
                self.position += 1;
                Ok([String::new()].into())
            }
            _ => fail(&first, ", expected: ',', ')' or identifier"),
        }
    }

    /// Identifiers between commas, each of which may be empty, up to the closing parenthesis.
    fn identifiers(&mut self) -> Result<BTreeSet<String>, SelectorError> {
        let mut values = BTreeSet::new();
        loop {
            let (token, literal) = self.next();
            match token {
                Token::Identifier => {
                    values.insert(literal.to_owned());
                    let (next, literal) = self.peek();
                    match next {
                        Token::Comma => {}
                        Token::Close => return Ok(values),
                        _ => return fail(literal, ", expected: ',' or ')'"),
                    }
                }
                Token::Comma => {
                    if values.is_empty() {
                        values.insert(String::new());
                    }
                    match self.peek().0 {
                        Token::Close => {
                            values.insert(String::new());
                            return Ok(values);
                        }
                        Token::Comma => {
                            values.insert(String::new());
                        }
                        _ => {}
                    }
                }
                _ => return fail(literal, ", expected: ',', or identifier"),
            }
        }
    }

    fn exact_value(&mut self) -> Result<BTreeSet<String>, SelectorError> {
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Ok([String::new()].into());
        }
        let (token, literal) = self.next();
        match token {
            Token::Identifier => Ok([literal.to_owned()].into()),
            _ => fail(literal, ", expected: identifier"),
        }
    }
}

fn fail<T>(literal: &str, rest: &str) -> Result<T, SelectorError> {
    Err(SelectorError(format!("found '{literal}'{rest}")))
}
