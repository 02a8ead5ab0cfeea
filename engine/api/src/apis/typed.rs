//! Typed reading of JSON values in one pass: the value, the paths of unknown fields, and the path of an error.
//!
//! Every type of the scheme is instantiated for this deserializer only. A stack of general deserializers (for ignored
//! fields, for paths, for owned values) would be compiled once for each of several thousand types, and took most of the
//! time to build this crate.

use std::cell::RefCell;
use std::fmt::{self, Write};

use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, Expected, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde_json::{Map, Value};

use super::misspelt;

/// Maximum number of unknown fields of an object that are compared with the known ones, which takes time.
pub const COMPARED_FIELDS_MAX: usize = 32;

/// What a value was read as.
#[derive(Debug)]
pub struct TypedValue<T> {
    /// The value, or the first error.
    pub result: Result<T, TypeError>,
    /// The fields that the type does not have.
    pub unknown: Vec<UnknownField>,
}

/// A field that a type does not have.
#[derive(Debug, PartialEq, Eq)]
pub struct UnknownField {
    /// The path, such as `rules[0].matches[1].foo`.
    pub path: String,
    /// The absent field of the same object that was probably intended.
    pub meant: Option<&'static str>,
}

/// A value that does not have the type of its field.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct TypeError {
    /// The path of the value below the root, such as `rules[0].matches`; empty for the root.
    pub path: String,
    /// The reason, in the words of serde.
    pub message: String,
    is_located: bool,
}

impl TypeError {
    /// Sets the path, if no inner value has set it.
    fn at(mut self, steps: Option<&FieldPath<'_>>) -> Self {
        if !self.is_located {
            self.is_located = true;
            self.path = steps.map(ToString::to_string).unwrap_or_default();
        }
        self
    }
}

impl Error for TypeError {
    fn custom<M: fmt::Display>(message: M) -> Self {
        Self { path: String::new(), message: message.to_string(), is_located: false }
    }

    /// As the errors of `serde_json`, which write the absent value as `null`.
    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(serde_json::Error::invalid_type(unexpected, expected))
    }

    /// As the errors of `serde_json`, which write the absent value as `null`.
    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(serde_json::Error::invalid_value(unexpected, expected))
    }
}

/// Reads a value.
pub fn read<T: DeserializeOwned>(value: &Value) -> TypedValue<T> {
    let unknown = RefCell::new(Vec::new());
    let result = T::deserialize(TypedReader { value, steps: None, siblings: None, unknown: &unknown });
    TypedValue { result: result.map_err(|error| error.at(None)), unknown: unknown.into_inner() }
}

/// A path from the root, as a list of the steps in reverse order.
struct FieldPath<'a> {
    parent: Option<&'a FieldPath<'a>>,
    step: PathStep<'a>,
}

enum PathStep<'a> {
    Key(&'a str),
    Index(usize),
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(formatter)?;
        }
        match self.step {
            PathStep::Key(key) if self.parent.is_none() => formatter.write_str(key),
            PathStep::Key(key) => {
                formatter.write_char('.')?;
                formatter.write_str(key)
            }
            PathStep::Index(index) => write!(formatter, "[{index}]"),
        }
    }
}

/// The deserializer of one value.
#[derive(Clone, Copy)]
struct TypedReader<'a, 'de> {
    value: &'de Value,
    steps: Option<&'a FieldPath<'a>>,
    /// The object of which the value is a field.
    siblings: Option<Siblings<'de>>,
    unknown: &'a RefCell<Vec<UnknownField>>,
}

/// An object with the fields of its type.
#[derive(Clone, Copy)]
struct Siblings<'de> {
    known: &'static [&'static str],
    present: &'de Map<String, Value>,
}

impl Siblings<'_> {
    /// The absent field that was probably intended by an unknown one.
    fn meant(self, name: &str) -> Option<&'static str> {
        misspelt::similar(name, self.known.iter().copied().filter(|known| !self.present.contains_key(*known)))
    }
}

impl<'de> TypedReader<'_, 'de> {
    fn invalid_type(self, expected: &dyn Expected) -> TypeError {
        let unexpected = match self.value {
            Value::Null => Unexpected::Unit,
            Value::Bool(value) => Unexpected::Bool(*value),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(number), ..) => Unexpected::Unsigned(number),
                (None, Some(number), _) => Unexpected::Signed(number),
                (None, None, number) => Unexpected::Float(number.unwrap_or_default()),
            },
            Value::String(text) => Unexpected::Str(text),
            Value::Array(_) => Unexpected::Seq,
            Value::Object(_) => Unexpected::Map,
        };
        TypeError::invalid_type(unexpected, expected).at(self.steps)
    }

    fn list<V: Visitor<'de>>(self, values: &'de [Value], visitor: V) -> Result<V::Value, TypeError> {
        let mut list = List { reader: self, values, next: 0 };
        let read = visitor.visit_seq(&mut list).map_err(|error| error.at(self.steps))?;
        match list.next == values.len() {
            true => Ok(read),
            false => Err(TypeError::invalid_length(values.len(), &"fewer elements in array").at(self.steps)),
        }
    }

    fn fields<V: Visitor<'de>>(self, fields: &'de Map<String, Value>, visitor: V) -> Result<V::Value, TypeError> {
        visitor.visit_map(self.entries(fields, &[])).map_err(|error| error.at(self.steps))
    }
}

impl<'a, 'de> TypedReader<'a, 'de> {
    /// The fields of an object; `known` are those of its type, if it has a fixed list.
    fn entries(self, fields: &'de Map<String, Value>, known: &'static [&'static str]) -> Fields<'a, 'de> {
        let siblings = Siblings { known, present: fields };
        Fields { reader: self, siblings, fields: fields.iter(), current: None }
    }
}

/// Methods for values that have no other values in them, as `serde_json` reads them.
macro_rules! as_serde_json {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
            self.value.$method(visitor).map_err(|error| TypeError::custom(error).at(self.steps))
        }
    )*};
}

impl<'de> Deserializer<'de> for TypedReader<'_, 'de> {
    type Error = TypeError;

    as_serde_json! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128 deserialize_u8
        deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64
        deserialize_char deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf deserialize_unit
        deserialize_identifier
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        match self.value {
            Value::Array(values) => self.list(values, visitor),
            Value::Object(fields) => self.fields(fields, visitor),
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => number.deserialize_any(visitor).map_err(TypeError::custom),
            Value::String(text) => visitor.visit_borrowed_str(text),
        }
        .map_err(|error| error.at(self.steps))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, TypeError> {
        visitor.visit_newtype_struct(self).map_err(|error| error.at(self.steps))
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, TypeError> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        match self.value {
            Value::Array(values) => self.list(values, visitor),
            _ => Err(self.invalid_type(&visitor)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, TypeError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, TypeError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        match self.value {
            Value::Object(fields) => self.fields(fields, visitor),
            _ => Err(self.invalid_type(&visitor)),
        }
    }

    /// A list is not an object, even if it has as many elements as the object has fields.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TypeError> {
        match self.value {
            Value::Object(fields) => {
                visitor.visit_map(self.entries(fields, known)).map_err(|error| error.at(self.steps))
            }
            _ => Err(self.invalid_type(&visitor)),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TypeError> {
        match self.value {
            Value::String(variant) => {
                let variant: BorrowedStrDeserializer<'_, TypeError> = BorrowedStrDeserializer::new(variant);
                variant.deserialize_enum(name, variants, visitor)
            }
            Value::Object(variant) if variant.len() == 1 => {
                visitor.visit_enum(MapAccessDeserializer::new(self.entries(variant, &[])))
            }
            Value::Object(_) => Err(TypeError::invalid_value(Unexpected::Map, &"map with a single key")),
            _ => Err(self.invalid_type(&"string or map")),
        }
        .map_err(|error| error.at(self.steps))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        if let Some(steps) = self.steps {
            let mut unknown = self.unknown.borrow_mut();
            let is_compared = unknown.len() < COMPARED_FIELDS_MAX;
            let meant = match steps.step {
                PathStep::Key(name) if is_compared => self.siblings.and_then(|siblings| siblings.meant(name)),
                PathStep::Key(_) | PathStep::Index(_) => None,
            };
            unknown.push(UnknownField { path: steps.to_string(), meant });
        }
        visitor.visit_unit()
    }
}

/// The elements of a list.
struct List<'a, 'de> {
    reader: TypedReader<'a, 'de>,
    values: &'de [Value],
    next: usize,
}

impl<'de> SeqAccess<'de> for List<'_, 'de> {
    type Error = TypeError;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, TypeError> {
        let Some(value) = self.values.get(self.next) else { return Ok(None) };
        let steps = FieldPath { parent: self.reader.steps, step: PathStep::Index(self.next) };
        self.next += 1;
        let element = TypedReader { value, steps: Some(&steps), siblings: None, unknown: self.reader.unknown };
        seed.deserialize(element).map(Some).map_err(|error| error.at(Some(&steps)))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.values.len() - self.next)
    }
}

/// The fields of an object.
struct Fields<'a, 'de> {
    reader: TypedReader<'a, 'de>,
    siblings: Siblings<'de>,
    fields: serde_json::map::Iter<'de>,
    current: Option<(&'de str, &'de Value)>,
}

impl<'de> MapAccess<'de> for Fields<'_, 'de> {
    type Error = TypeError;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, TypeError> {
        let Some((key, value)) = self.fields.next() else { return Ok(None) };
        self.current = Some((key, value));
        let steps = FieldPath { parent: self.reader.steps, step: PathStep::Key(key) };
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some).map_err(|error: TypeError| error.at(Some(&steps)))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, TypeError> {
        let Some((key, value)) = self.current.take() else { return Err(TypeError::custom("value is missing")) };
        let steps = FieldPath { parent: self.reader.steps, step: PathStep::Key(key) };
        let siblings = Some(self.siblings);
        let field = TypedReader { value, steps: Some(&steps), siblings, unknown: self.reader.unknown };
        seed.deserialize(field).map_err(|error| error.at(Some(&steps)))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.fields.len())
    }
}

#[cfg(test)]
mod tests;
