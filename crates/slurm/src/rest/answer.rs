//! Conversion of a response's bytes to a result.

use serde_json::{Map, Value};

use super::errno::Errno;
use super::error::RestError;
use super::model::{Complaint, Envelope};
use super::split::{Piece, SplitError, Splitter};

/// Maximum characters of a server's error message that are passed on.
const MAX_TEXT: usize = 400;
/// Maximum bytes read of a response that is not JSON.
const MAX_PLAIN: usize = 4096;
/// Maximum bytes of a response besides its list.
const MAX_FIELDS: usize = 16 << 20;

/// Reason why a piece cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Split(#[from] SplitError),
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    #[error("it has more than {} MiB besides its list", MAX_FIELDS >> 20)]
    TooLong,
}

/// A complete response, whatever its content.
pub struct Answer {
    pub http: u16,
    /// True if the requested list is present.
    pub found: bool,
    pub envelope: Envelope,
    /// The payload besides the list.
    pub fields: Map<String, Value>,
    pub bytes: u64,
}

/// Collects a response while it arrives.
pub struct Reader {
    http: u16,
    form: Form,
    fields: Map<String, Value>,
    fields_size: usize,
    bytes: u64,
}

enum Form {
    Json(Splitter),
    Plain(Vec<u8>),
}

impl Reader {
    /// For a response whose list has the key `wanted`.
    pub fn new(http: u16, is_json: bool, wanted: &'static str) -> Self {
        let form = if is_json { Form::Json(Splitter::new(wanted)) } else { Form::Plain(Vec::new()) };
        Self { http, form, fields: Map::new(), fields_size: 0, bytes: 0 }
    }

    /// Reads the next bytes; passes each element of the list to `take`.
    pub fn feed(&mut self, chunk: &[u8], take: &mut (dyn FnMut(&[u8]) -> Result<(), serde_json::Error> + Send)) -> Result<(), ReadError> {
        self.bytes += chunk.len() as u64;
        match &mut self.form {
            Form::Plain(text) => {
                let room = MAX_PLAIN.saturating_sub(text.len()).min(chunk.len());
                text.extend_from_slice(&chunk[..room]);
                Ok(())
            }
            Form::Json(splitter) => splitter.feed(chunk, |piece| match piece {
                Piece::Element(text) => Ok(take(text)?),
                Piece::Field(key, text) => {
                    self.fields_size += key.len() + text.len();
                    if self.fields_size > MAX_FIELDS {
                        return Err(ReadError::TooLong);
                    }
                    self.fields.insert(key.to_owned(), serde_json::from_slice(text)?);
                    Ok(())
                }
            }),
        }
    }

    /// The result: a response, or the error. `path` is the requested path.
    pub fn finish(self, path: &str) -> Result<Answer, RestError> {
        let Self { http, form, mut fields, bytes, .. } = self;
        let splitter = match form {
            Form::Plain(_) if http == 304 => {
                return Ok(Answer { http, found: false, envelope: Envelope::default(), fields, bytes });
            }
            Form::Plain(text) => return Err(plain_refusal(http, &String::from_utf8_lossy(&text), path)),
            Form::Json(splitter) => splitter,
        };
        let found = splitter.found();
        splitter.finish().map_err(|error| RestError::Unreadable(error.to_string()))?;
        let mut own = Map::new();
        for key in ["errors", "warnings", "last_update", "meta"] {
            if let Some(value) = fields.remove(key) {
                own.insert(key.to_owned(), value);
            }
        }
        let envelope: Envelope =
            serde_json::from_value(Value::Object(own)).map_err(|error| RestError::Unreadable(format!("its envelope: {error}")))?;
        match refusal(http, &envelope.errors) {
            Some(error) => Err(error),
            None => Ok(Answer { http, found, envelope, fields, bytes }),
        }
    }
}

/// Error for a refusal before slurmrestd has examined the request.
fn plain_refusal(http: u16, text: &str, path: &str) -> RestError {
    let text = shortened(text);
    match http {
        401 | 511 => RestError::TokenRefused { http, number: Errno::default(), text },
        404 | 405 => RestError::UnknownUrl { path: path.to_owned() },
        500.. => RestError::Unavailable { http, text },
        _ => RestError::Unreadable(format!("HTTP {http} with no JSON: {text}")),
    }
}

/// The refusal in a response's errors, or `None`. An error with number 0 in a 200 is left to the caller: some missing objects are reported that way.
fn refusal(http: u16, errors: &[Complaint]) -> Option<RestError> {
    let telling = errors.iter().find(|complaint| complaint.error_number != 0).or_else(|| errors.first());
    let number = telling.map(Complaint::errno).unwrap_or_default();
    let text = telling.map(said).unwrap_or_default();
    if matches!(http, 401 | 511) || number.is_about_the_token() {
        return Some(RestError::TokenRefused { http, number, text });
    }
    match http {
        200..=299 if number == Errno::default() => None,
        502..=504 => Some(RestError::Unavailable { http, text: format!("{text} ({number})") }),
        _ => Some(RestError::Refused { http, number, text }),
    }
}

/// An error in one line.
pub fn said(complaint: &Complaint) -> String {
    let Complaint { description, error, .. } = complaint;
    shortened(&if description.is_empty() || description == error { error.clone() } else { format!("{error} ({description})") })
}

fn shortened(text: &str) -> String {
    let line: String = text.chars().map(|character| if character.is_control() { ' ' } else { character }).take(MAX_TEXT).collect();
    line.trim().to_owned()
}
