//! Numbers: bounds, multiples, and the range that a format gives.

use serde_json::{Number, Value};

use crate::{
    node::{Node, Type},
    text::go_float,
};

/// What is wrong with a number.
pub(crate) enum Fault {
    /// The value breaks a bound.
    OfField {
        /// The value as the message shows it.
        value: Value,
        /// The whole message.
        message: String,
    },
    /// The value, or a bound, is outside what the type can hold.
    OfType(String),
}

/// The limits of a numeric field.
#[derive(Debug)]
pub(crate) struct Limits {
    /// `integer`, `number`, or empty where the type is open.
    ty: &'static str,
    format: String,
    multiple_of: Option<f64>,
    minimum: Option<(f64, bool)>,
    maximum: Option<(f64, bool)>,
}

impl Limits {
    pub(crate) fn of(node: &Node, format: Option<&str>) -> Self {
        let ty = match node.ty {
            Type::Integer => "integer",
            Type::Number => "number",
            _ => "",
        };
        let format = if ty.is_empty() { "" } else { format.unwrap_or_default() };
        Self {
            ty,
            format: format.to_owned(),
            multiple_of: node.multiple_of,
            minimum: node.minimum.map(|bound| (bound, node.exclusive_minimum)),
            maximum: node.maximum.map(|bound| (bound, node.exclusive_maximum)),
        }
    }

    pub(crate) fn check(&self, number: &Number, path: &str) -> Vec<Fault> {
        let mut faults = Vec::new();
        let int = number.as_i64();
        let float = number.as_f64().unwrap_or_default();
        if !self.holds(int, float) {
            faults.push(self.out_of_range("Checked", path));
        }
        let field = |value: Value, what: String| Fault::OfField {
            value,
            message: format!("{path} in body should be {what}"),
        };
        if let Some(factor) = self.multiple_of {
            let fits = self.holds(None, factor);
            if !fits {
                faults.push(self.out_of_range("MultipleOf", path));
            }
            match int.filter(|_| fits) {
                Some(int) => match factor as i64 {
                    // An integer is measured by integers, even if that makes no sense.
                    factor if factor <= 0 => faults.push(Fault::OfField {
                        value: factor.into(),
                        message: format!(
                            "factor MultipleOf declared for {path} must be positive: {factor}"
                        ),
                    }),
                    factor if int % factor != 0 => {
                        faults.push(field(int.into(), format!("a multiple of {factor}")));
                    }
                    _ => {}
                },
                None if !is_multiple(float, factor) => {
                    let factor = go_float(factor);
                    faults.push(field(number.clone().into(), format!("a multiple of {factor}")));
                }
                None => {}
            }
        }
        let bounds = [
            (self.minimum, "Minimum boundary", "greater than"),
            (self.maximum, "Maximum boundary", "less than"),
        ];
        for (i, (bound, name, word)) in bounds.into_iter().enumerate() {
            let Some((bound, exclusive)) = bound else { continue };
            let fits = self.holds(None, bound);
            if !fits {
                faults.push(self.out_of_range(name, path));
            }
            let is_minimum = i == 0;
            let (order, text) = match int.filter(|_| fits) {
                Some(int) => (int.cmp(&(bound as i64)), (bound as i64).to_string()),
                None => (
                    float.partial_cmp(&bound).unwrap_or(std::cmp::Ordering::Equal),
                    go_float(bound),
                ),
            };
            let order = if is_minimum { order } else { order.reverse() };
            if order.is_lt() || (exclusive && order.is_eq()) {
                let or_equal = if exclusive { "" } else { " or equal to" };
                faults.push(field(number.clone().into(), format!("{word}{or_equal} {text}")));
            }
        }
        faults
    }

    /// Whether the type and format can hold the number.
    fn holds(&self, int: Option<i64>, float: f64) -> bool {
        match (self.ty, self.format.as_str()) {
            ("integer", format) => {
                let int = int.or_else(|| {
                    let whole = float.fract() == 0.0
                        && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0)
                            .contains(&float);
                    whole.then_some(float as i64)
                });
                match format {
                    "int32" => int.is_some_and(|int| i32::try_from(int).is_ok()),
                    _ => int.is_some(),
                }
            }
            (_, "float") => float.abs() <= f64::from(f32::MAX),
            _ => true,
        }
    }

    fn out_of_range(&self, what: &str, path: &str) -> Fault {
        let ty = self.ty;
        Fault::OfType(match self.format.as_str() {
            "" => format!("{what} value must be of type {ty} (default format) in {path}"),
            format => format!("{what} value must be of type {ty} with format {format} in {path}"),
        })
    }
}

/// Whether a float is a whole number that JSON can carry exactly, within rounding.
pub(crate) fn is_json_integer(float: f64) -> bool {
    const MAX: f64 = 9_007_199_254_740_991.0;
    if !float.is_finite() || float.abs() > MAX {
        return false;
    }
    let whole = float.trunc();
    if float == whole {
        return true;
    }
    // Negative numbers do not survive the conversion that the comparison is made with.
    let whole = if float < 0.0 { 0.0 } else { whole };
    if whole == 0.0 {
        return false;
    }
    let difference = (float - whole).abs();
    difference / (float.abs() + whole.abs()) < 1e-9
}

fn is_multiple(float: f64, factor: f64) -> bool {
    if factor <= 0.0 {
        return false;
    }
    is_json_integer(if factor < 1.0 { 1.0 / factor * float } else { float / factor })
}

/// Whether `value`, converted to the type of `admitted`, equals it.
pub(crate) fn converts_to(value: &Value, admitted: &Value) -> bool {
    match (value, admitted) {
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Number(value), Value::Number(admitted)) => {
            match (value.as_i64(), admitted.as_i64()) {
                (Some(value), Some(admitted)) => value == admitted,
                (None, Some(admitted)) => value.as_f64().is_some_and(|v| v as i64 == admitted),
                _ => value.as_f64() == admitted.as_f64(),
            }
        }
        (Value::Number(value), Value::String(admitted)) => {
            // An integer converts to the character of that code.
            let code = value.as_u64().and_then(|code| u32::try_from(code).ok());
            let text = code.and_then(char::from_u32).map(String::from);
            text.is_some_and(|text| text == *admitted)
        }
        _ => value == admitted,
    }
}
