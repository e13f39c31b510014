//! Facts as bytes, for rows that are spooled to a file.

use std::io::{self, Read};

use crate::fact::{Fact, Likeness, NonFiniteCount, Plain, Statistics};
use crate::style::Side;

/// A value that can be spooled: it is read back bit for bit.
pub(crate) trait Packed: Sized {
    fn pack(&self, to: &mut Vec<u8>);
    fn unpack(from: &mut dyn Read) -> io::Result<Self>;
}

impl Packed for u8 {
    fn pack(&self, to: &mut Vec<u8>) {
        to.push(*self);
    }

    fn unpack(from: &mut dyn Read) -> io::Result<u8> {
        let mut byte = [0];
        from.read_exact(&mut byte)?;
        Ok(byte[0])
    }
}

impl Packed for u64 {
    fn pack(&self, to: &mut Vec<u8>) {
        to.extend(self.to_le_bytes());
    }

    fn unpack(from: &mut dyn Read) -> io::Result<u64> {
        let mut bytes = [0; 8];
        from.read_exact(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

impl Packed for f64 {
    fn pack(&self, to: &mut Vec<u8>) {
        self.to_bits().pack(to);
    }

    fn unpack(from: &mut dyn Read) -> io::Result<f64> {
        u64::unpack(from).map(f64::from_bits)
    }
}

impl Packed for String {
    fn pack(&self, to: &mut Vec<u8>) {
        (self.len() as u64).pack(to);
        to.extend(self.as_bytes());
    }

    fn unpack(from: &mut dyn Read) -> io::Result<String> {
        let mut text = vec![0; u64::unpack(from)? as usize];
        from.read_exact(&mut text)?;
        String::from_utf8(text).map_err(io::Error::other)
    }
}

impl<T: Packed> Packed for Option<T> {
    fn pack(&self, to: &mut Vec<u8>) {
        u8::from(self.is_some()).pack(to);
        self.iter().for_each(|value| value.pack(to));
    }

    fn unpack(from: &mut dyn Read) -> io::Result<Option<T>> {
        match u8::unpack(from)? {
            0 => Ok(None),
            _ => T::unpack(from).map(Some),
        }
    }
}

impl<T: Packed> Packed for Box<T> {
    fn pack(&self, to: &mut Vec<u8>) {
        (**self).pack(to);
    }

    fn unpack(from: &mut dyn Read) -> io::Result<Box<T>> {
        T::unpack(from).map(Box::new)
    }
}

impl<T: Packed> Packed for Vec<T> {
    fn pack(&self, to: &mut Vec<u8>) {
        (self.len() as u64).pack(to);
        self.iter().for_each(|value| value.pack(to));
    }

    fn unpack(from: &mut dyn Read) -> io::Result<Vec<T>> {
        let count = u64::unpack(from)?;
        (0..count).map(|_| T::unpack(from)).collect()
    }
}

impl Packed for Statistics {
    fn pack(&self, to: &mut Vec<u8>) {
        self.iter().for_each(|value| value.pack(to));
    }

    fn unpack(from: &mut dyn Read) -> io::Result<Statistics> {
        let mut values = Statistics::default();
        for value in &mut values {
            *value = Packed::unpack(from)?;
        }
        Ok(values)
    }
}

impl<T: Packed, U: Packed> Packed for (T, U) {
    fn pack(&self, to: &mut Vec<u8>) {
        self.0.pack(to);
        self.1.pack(to);
    }

    fn unpack(from: &mut dyn Read) -> io::Result<(T, U)> {
        Ok((T::unpack(from)?, U::unpack(from)?))
    }
}

impl Packed for Side {
    fn pack(&self, to: &mut Vec<u8>) {
        (*self as u8).pack(to);
    }

    fn unpack(from: &mut dyn Read) -> io::Result<Side> {
        Ok(if u8::unpack(from)? == Side::Target as u8 { Side::Target } else { Side::Golden })
    }
}

impl Packed for NonFiniteCount {
    fn pack(&self, to: &mut Vec<u8>) {
        (self.nan, self.infinite).pack(to);
    }

    fn unpack(from: &mut dyn Read) -> io::Result<NonFiniteCount> {
        let (nan, infinite) = Packed::unpack(from)?;
        Ok(NonFiniteCount { nan, infinite })
    }
}

impl Packed for Plain {
    fn pack(&self, to: &mut Vec<u8>) {
        match self {
            Plain::None => to.push(0),
            Plain::Tensor(dtype) => {
                to.push(1);
                dtype.pack(to);
            }
            Plain::Scalar { kind, json } => {
                to.push(2);
                kind.pack(to);
                json.pack(to);
            }
            Plain::Object => to.push(3),
        }
    }

    fn unpack(from: &mut dyn Read) -> io::Result<Plain> {
        Ok(match u8::unpack(from)? {
            0 => Plain::None,
            1 => Plain::Tensor(Packed::unpack(from)?),
            2 => Plain::Scalar { kind: Packed::unpack(from)?, json: Packed::unpack(from)? },
            3 => Plain::Object,
            tag => return Err(unknown(tag)),
        })
    }
}

impl Packed for Likeness {
    fn pack(&self, to: &mut Vec<u8>) {
        match self {
            Likeness::FewElements { differ, of } => {
                to.push(0);
                (*differ, *of).pack(to);
            }
            Likeness::Zero => to.push(1),
            Likeness::SignFlipped => to.push(2),
            Likeness::Factor(factor) => {
                to.push(3);
                factor.pack(to);
            }
        }
    }

    fn unpack(from: &mut dyn Read) -> io::Result<Likeness> {
        Ok(match u8::unpack(from)? {
            0 => Likeness::FewElements { differ: Packed::unpack(from)?, of: Packed::unpack(from)? },
            1 => Likeness::Zero,
            2 => Likeness::SignFlipped,
            3 => Likeness::Factor(Packed::unpack(from)?),
            tag => return Err(unknown(tag)),
        })
    }
}

/// Writes a tag and the fields of a variant, in order.
macro_rules! packed {
    ($to:expr, $tag:literal $(, $field:expr)*) => {{
        $to.push($tag);
        $($field.pack($to);)*
    }};
}

impl Packed for Fact {
    fn pack(&self, to: &mut Vec<u8>) {
        match self {
            Fact::Elements { distance, largest, likeness } => packed!(to, 0, distance, largest, likeness),
            Fact::Statistics { target, golden } => packed!(to, 1, target, golden),
            Fact::ElementsDiffer { differ, of, distance } => packed!(to, 2, differ, of, distance),
            Fact::NonFinite { elements, counts: [target, golden] } => {
                packed!(to, 3, elements, target, golden);
            }
            Fact::NonFiniteStatistics(side) => packed!(to, 4, side),
            Fact::BothNan { elements } => packed!(to, 5, elements),
            Fact::DigestsDiffer => packed!(to, 6),
            Fact::OnlyDigestsDiffer => packed!(to, 7),
            Fact::NothingInCommon => packed!(to, 8),
            Fact::Uninitialised => packed!(to, 9),
            Fact::Devices => packed!(to, 10),
            Fact::Objects => packed!(to, 11),
            Fact::Values { target, golden } => packed!(to, 12, target, golden),
            Fact::Kinds { target, golden } => packed!(to, 13, target, golden),
            Fact::Shapes { target, golden } => packed!(to, 14, target, golden),
            Fact::Reshaped { target, golden, elements } => packed!(to, 15, target, golden, elements),
            Fact::OnlyIn { side, value } => packed!(to, 16, side, value),
            Fact::Unpaired(reason) => packed!(to, 17, reason),
            Fact::Unread => packed!(to, 18),
            Fact::InheritedFrom(call) => packed!(to, 19, call),
            Fact::Unexplained => packed!(to, 20),
        }
    }

    fn unpack(from: &mut dyn Read) -> io::Result<Fact> {
        let tag = u8::unpack(from)?;
        // Fields are read in the order in which they are written here.
        Ok(match tag {
            0 => Fact::Elements {
                distance: Packed::unpack(from)?,
                largest: Packed::unpack(from)?,
                likeness: Packed::unpack(from)?,
            },
            1 => Fact::Statistics { target: Packed::unpack(from)?, golden: Packed::unpack(from)? },
            2 => Fact::ElementsDiffer {
                differ: Packed::unpack(from)?,
                of: Packed::unpack(from)?,
                distance: Packed::unpack(from)?,
            },
            3 => Fact::NonFinite {
                elements: Packed::unpack(from)?,
                counts: [Packed::unpack(from)?, Packed::unpack(from)?],
            },
            4 => Fact::NonFiniteStatistics(Packed::unpack(from)?),
            5 => Fact::BothNan { elements: Packed::unpack(from)? },
            6 => Fact::DigestsDiffer,
            7 => Fact::OnlyDigestsDiffer,
            8 => Fact::NothingInCommon,
            9 => Fact::Uninitialised,
            10 => Fact::Devices,
            11 => Fact::Objects,
            12 => Fact::Values { target: Packed::unpack(from)?, golden: Packed::unpack(from)? },
            13 => Fact::Kinds { target: Packed::unpack(from)?, golden: Packed::unpack(from)? },
            14 => Fact::Shapes { target: Packed::unpack(from)?, golden: Packed::unpack(from)? },
            15 => Fact::Reshaped {
                target: Packed::unpack(from)?,
                golden: Packed::unpack(from)?,
                elements: Packed::unpack(from)?,
            },
            16 => Fact::OnlyIn { side: Packed::unpack(from)?, value: Packed::unpack(from)? },
            17 => Fact::Unpaired(Packed::unpack(from)?),
            18 => Fact::Unread,
            19 => Fact::InheritedFrom(Packed::unpack(from)?),
            20 => Fact::Unexplained,
            tag => return Err(unknown(tag)),
        })
    }
}

fn unknown(tag: u8) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("a row that waited has a fact of the unknown kind {tag}"),
    )
}
