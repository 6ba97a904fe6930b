//! Enums that are strings on the wire.
//!
//! Both macros give the enum `as_str`, `Display`, serde, a schema and the list of all its values,
//! so that a value is spelt in one place.

/// An enum of strings that the schema limits to exactly these.
macro_rules! string_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $value:literal,)+
        }
        $(default $default:ident)?
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $(
                $(#[$variant_meta])*
                #[doc = concat!("Written `", $value, "`.")]
                #[serde(rename = $value)]
                $variant,
            )+
        }

        impl $name {
            /// All values, in the order of the schema.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The value as it is written.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $value,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": [$($value),+] })
            }
        }

        $(
            impl Default for $name {
                fn default() -> Self {
                    Self::$default
                }
            }
        )?
    };
}

/// An enum of known strings that takes any other one too.
macro_rules! open_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $value:literal,)+
        }
        default $default:ident
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $(
                $(#[$variant_meta])*
                #[doc = concat!("Written `", $value, "`.")]
                $variant,
            )+
            /// Any other value, as it is written.
            Other(String),
        }

        impl $name {
            /// The value as it is written.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $value,)+
                    Self::Other(other) => other,
                }
            }
        }

        impl From<&str> for $name {
            fn from(value: &str) -> Self {
                match value {
                    $($value => Self::$variant,)+
                    other => Self::Other(other.to_owned()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                Ok(Self::from(text.as_ref()))
            }
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string" })
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::$default
            }
        }
    };
}

pub(crate) use open_enum;
pub(crate) use string_enum;

#[cfg(test)]
mod tests {
    use crate::infra::{PowerState, ProviderType};

    #[test]
    fn closed_enums_take_their_values_only() {
        for &state in PowerState::ALL {
            let text = serde_json::to_value(state).unwrap();
            assert_eq!(text, state.as_str());
            assert_eq!(serde_json::from_value::<PowerState>(text).unwrap(), state);
        }
        assert!(serde_json::from_str::<PowerState>(r#""on""#).is_err());
    }

    #[test]
    fn open_enums_keep_what_they_do_not_know() {
        let known: ProviderType = serde_json::from_str(r#""libvirt""#).unwrap();
        assert_eq!(known, ProviderType::Libvirt);
        let other: ProviderType = serde_json::from_str(r#""incus""#).unwrap();
        assert_eq!(other, ProviderType::Other("incus".into()));
        assert_eq!(serde_json::to_string(&other).unwrap(), r#""incus""#);
        assert_eq!(format!("{:>8}", other), "   incus");
    }
}
