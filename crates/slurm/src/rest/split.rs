//! Splits a large JSON response into the elements of one list while it arrives.
//!
//! A list of ten thousand nodes is 25 MB of text. Neither the text nor its parsed tree is ever in memory as a whole: each element is passed on as
//! soon as its last byte arrives. The splitter looks only at quotes and brackets; the reader of a piece checks that it is valid JSON.

/// Maximum bytes of one piece. A job or node of a real server has a few thousand.
const MAX_PIECE: usize = 16 << 20;
/// Maximum bytes of a key.
const MAX_KEY: usize = 1024;

/// A part of the response, as raw text.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// One element of the wanted list.
    Element(&'a [u8]),
    /// Any other field of the response.
    Field(&'a str, &'a [u8]),
}

/// Reason why a response cannot be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    #[error("the answer is no JSON object")]
    NotAnObject,
    #[error("byte {0} of the answer is not where JSON has it")]
    Misplaced(u64),
    #[error("one element of the answer is longer than {MAX_PIECE} bytes")]
    TooLong,
    #[error("the answer ends in the middle, after {0} bytes")]
    EndsEarly(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    BeforeKey,
    Key {
        escaped: bool,
    },
    Colon,
    BeforeValue,
    BetweenElements,
    /// Inside brackets, at this depth.
    Nested {
        depth: u32,
        element: bool,
    },
    /// Inside a string, at this depth of brackets.
    Text {
        depth: u32,
        escaped: bool,
        element: bool,
    },
    /// A number, `true`, `false` or `null`.
    Bare {
        element: bool,
    },
    AfterValue,
    Done,
}

/// Splits one response.
pub struct Splitter {
    wanted: &'static str,
    state: State,
    key: Vec<u8>,
    piece: Vec<u8>,
    seen: u64,
    found: bool,
}

impl Splitter {
    /// For a response whose list has the key `wanted`.
    pub fn new(wanted: &'static str) -> Self {
        Self { wanted, state: State::Start, key: Vec::new(), piece: Vec::new(), seen: 0, found: false }
    }

    /// True if the response had the wanted key, with a list.
    pub fn found(&self) -> bool {
        self.found
    }

    /// Reads the next bytes and passes every complete piece to `take`.
    pub fn feed<E: From<SplitError>>(&mut self, chunk: &[u8], mut take: impl FnMut(Piece<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut at = 0;
        // Start of the current piece in this chunk; its part from earlier chunks is in `self.piece`.
        let mut from = 0;
        while let Some(&byte) = chunk.get(at) {
            match self.state {
                State::Nested { depth, element } => {
                    // The hot loop: only quotes and brackets matter.
                    let Some(step) = chunk[at..].iter().position(|byte| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']')) else {
                        break;
                    };
                    at += step + 1;
                    match chunk[at - 1] {
                        b'"' => self.state = State::Text { depth, escaped: false, element },
                        b'{' | b'[' => self.state = State::Nested { depth: depth + 1, element },
                        _ if depth > 1 => self.state = State::Nested { depth: depth - 1, element },
                        _ => self.cut(&chunk[from..at], element, &mut take)?,
                    }
                    continue;
                }
                State::Text { depth, escaped: false, element } => {
                    let Some(step) = memchr::memchr2(b'"', b'\\', &chunk[at..]) else {
                        break;
                    };
                    at += step + 1;
                    match (chunk[at - 1], depth) {
                        (b'\\', _) => self.state = State::Text { depth, escaped: true, element },
                        (_, 0) => self.cut(&chunk[from..at], element, &mut take)?,
                        _ => self.state = State::Nested { depth, element },
                    }
                    continue;
                }
                State::Text { depth, escaped: true, element } => self.state = State::Text { depth, escaped: false, element },
                State::Bare { element } => {
                    if matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace() {
                        self.cut(&chunk[from..at], element, &mut take)?;
                        continue; // the same byte again: it may close the list or the response
                    }
                }
                State::Key { escaped } => match byte {
                    b'"' if !escaped => self.state = State::Colon,
                    _ if self.key.len() >= MAX_KEY => return Err(SplitError::TooLong.into()),
                    _ => {
                        self.key.push(byte);
                        self.state = State::Key { escaped: byte == b'\\' && !escaped };
                    }
                },
                _ if byte.is_ascii_whitespace() => {}
                State::Start if byte == b'{' => self.state = State::BeforeKey,
                State::Start => return Err(SplitError::NotAnObject.into()),
                State::BeforeKey if byte == b'"' => {
                    self.key.clear();
                    self.state = State::Key { escaped: false };
                }
                State::BeforeKey | State::AfterValue if byte == b'}' => self.state = State::Done,
                State::AfterValue if byte == b',' => self.state = State::BeforeKey,
                State::Colon if byte == b':' => self.state = State::BeforeValue,
                State::BeforeValue if byte == b'[' && self.key == self.wanted.as_bytes() => {
                    self.found = true;
                    self.state = State::BetweenElements;
                }
                State::BetweenElements if byte == b']' => self.state = State::AfterValue,
                State::BetweenElements if byte == b',' => {}
                State::BeforeValue | State::BetweenElements => {
                    from = at;
                    let element = self.state == State::BetweenElements;
                    self.state = match byte {
                        b'{' | b'[' => State::Nested { depth: 1, element },
                        b'"' => State::Text { depth: 0, escaped: false, element },
                        b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => State::Bare { element },
                        _ => return Err(SplitError::Misplaced(self.seen + at as u64).into()),
                    };
                }
                State::BeforeKey | State::Colon | State::AfterValue | State::Done => {
                    return Err(SplitError::Misplaced(self.seen + at as u64).into());
                }
            }
            at += 1;
        }
        self.seen += chunk.len() as u64;
        if matches!(self.state, State::Nested { .. } | State::Text { .. } | State::Bare { .. }) {
            if self.piece.len() + chunk.len() - from > MAX_PIECE {
                return Err(SplitError::TooLong.into());
            }
            self.piece.extend_from_slice(&chunk[from..]);
        }
        Ok(())
    }

    /// Passes on the piece that ends with `tail`.
    fn cut<E: From<SplitError>>(&mut self, tail: &[u8], element: bool, take: &mut impl FnMut(Piece<'_>) -> Result<(), E>) -> Result<(), E> {
        self.state = if element { State::BetweenElements } else { State::AfterValue };
        let whole = if self.piece.is_empty() {
            tail
        } else {
            self.piece.extend_from_slice(tail);
            &self.piece
        };
        let handed = if element { take(Piece::Element(whole)) } else { take(Piece::Field(&String::from_utf8_lossy(&self.key), whole)) };
        self.piece.clear();
        handed
    }

    /// Fails if the response was incomplete.
    pub fn finish(self) -> Result<(), SplitError> {
        match self.state {
            State::Done => Ok(()),
            State::Start => Err(SplitError::NotAnObject),
            _ => Err(SplitError::EndsEarly(self.seen)),
        }
    }
}

#[cfg(test)]
mod tests;
