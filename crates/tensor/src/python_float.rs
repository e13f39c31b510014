//! Prints floats as Python does.
//!
//! Python programs read dumps and result sheets and compare them with their own: the same double must
//! be the same text in every file.

/// A float as Python's `repr` shows it: the shortest digits that read back as the same double, in plain
/// notation between `1e-4` and `1e16` and in scientific notation elsewhere.
///
/// ```
/// use ulpscope_tensor::python_float_repr;
/// assert_eq!(python_float_repr(63.0), "63.0");
/// assert_eq!(python_float_repr(1e-5), "1e-05");
/// assert_eq!(python_float_repr(1e16), "1e+16");
/// ```
pub fn python_float_repr(value: f64) -> String {
    let mut out = Vec::new();
    push_python_float(value, &mut out);
    // Digits, signs, `.`, `e` and the words below are all ASCII.
    String::from_utf8_lossy(&out).into_owned()
}

/// Appends [`python_float_repr`] of a float.
pub fn push_python_float(value: f64, out: &mut Vec<u8>) {
    if value.is_nan() {
        return out.extend_from_slice(b"nan");
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    if value.is_infinite() {
        return out.extend_from_slice(b"inf");
    }
    let mut buffer = ryu::Buffer::new();
    let mut room = [0; MAX_DIGITS];
    let (count, exponent) = shortest(buffer.format_finite(value.abs()), &mut room);
    let digits = &mut room[..count];
    if may_be_halfway(value, digits.len(), exponent) {
        settle_tie(value, digits, exponent);
    }
    let digits = &*digits;
    if !(-4..16).contains(&exponent) {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        push_exponent(exponent, out);
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', exponent.unsigned_abs() as usize - 1));
        out.extend_from_slice(digits);
    } else {
        let whole = exponent as usize + 1;
        if digits.len() <= whole {
            out.extend_from_slice(digits);
            out.extend(std::iter::repeat_n(b'0', whole - digits.len()));
            out.extend_from_slice(b".0");
        } else {
            out.extend_from_slice(&digits[..whole]);
            out.push(b'.');
            out.extend_from_slice(&digits[whole..]);
        }
    }
}

/// Digits of the longest form that ryu writes, including zeros around the point.
const MAX_DIGITS: usize = 24;

/// Splits the shortest form of a float: the number of significant digits, written to `room`, and the power of ten
/// of the first. The form does not have Python's notation.
fn shortest(text: &str, room: &mut [u8; MAX_DIGITS]) -> (usize, i32) {
    let (mut count, mut leading, mut whole) = (0, 0, None);
    let mut bytes = text.bytes();
    let mut power = 0;
    for byte in bytes.by_ref() {
        match byte {
            b'e' => {
                power = signed(&mut bytes);
                break;
            }
            b'.' => whole = Some(count + leading),
            b'0' if count == 0 => leading += 1,
            digit => {
                room[count] = digit;
                count += 1;
            }
        }
    }
    let point = whole.unwrap_or(count + leading) as i32;
    while count > 0 && room[count - 1] == b'0' {
        count -= 1;
    }
    if count == 0 {
        room[0] = b'0';
        return (1, 0);
    }
    (count, power + point - 1 - leading as i32)
}

/// The number in decimal digits, perhaps after a minus.
fn signed(digits: &mut impl Iterator<Item = u8>) -> i32 {
    let (mut number, mut sign) = (0, 1);
    for byte in digits {
        match byte {
            b'-' => sign = -1,
            digit => number = number * 10 + i32::from(digit - b'0'),
        }
    }
    sign * number
}

/// Appends an exponent in at least two digits: `e-05`, `e+16`.
fn push_exponent(exponent: i32, out: &mut Vec<u8>) {
    out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
    let size = exponent.unsigned_abs();
    // A double's power of ten has at most three digits.
    let digit = |number: u32| b'0' + (number % 10) as u8;
    if size >= 100 {
        out.push(digit(size / 100));
    }
    out.extend_from_slice(&[digit(size / 10), digit(size)]);
}

/// Whether the digits may be exactly halfway between two numbers of as many digits. It is cheap, and may only err by
/// returning true.
fn may_be_halfway(value: f64, digits: usize, exponent: i32) -> bool {
    // Fewer than sixteen digits identify a double uniquely, so one of fifteen has no equally near alternative.
    if digits < 15 {
        return false;
    }
    // A double with `below` bits after the binary point has exactly as many decimals, the last a 5.
    let mantissa = value.to_bits() & ((1 << 52) - 1) | 1 << 52;
    let power = ((value.to_bits() >> 52) & 0x7ff) as i32 - 1075;
    let below = -(power + mantissa.trailing_zeros() as i32);
    below <= 0 || below == digits as i32 - exponent
}

/// Of two shortest forms that are equally near to the double, Python takes the one that ends in an even digit.
fn settle_tie(value: f64, digits: &mut [u8], exponent: i32) {
    /// With this many digits every double that can be halfway is exact.
    const EXACT: usize = 60;
    let exact: Vec<u8> =
        format!("{:.EXACT$e}", value.abs()).bytes().filter(u8::is_ascii_digit).take(EXACT).collect();
    let (head, tail) = exact.split_at(digits.len());
    if tail[0] != b'5' || tail[1..].iter().any(|&digit| digit != b'0') {
        return;
    }
    let mut even = head.to_vec();
    if let Some(last) = even.last_mut() {
        // The codes of odd digits are odd. A 9 cannot occur here: adding one would have given a shorter form.
        *last += *last % 2;
    }
    let text: String = even.iter().map(|&digit| char::from(digit)).collect();
    let scale = exponent - (even.len() as i32 - 1);
    if format!("{text}e{scale}").parse() == Ok(value.abs()) {
        digits.copy_from_slice(&even);
    }
}
