//! Points of the elliptic curves of public keys (SEC 2 §2.4.2, §2.5.1, §2.6.1).

use num_bigint::BigUint;

use super::leaf::Curve;

/// The prime and the constant `b` of `y² = x³ − 3x + b`, in hexadecimal digits.
fn parameters(curve: Curve) -> (&'static [u8], &'static [u8]) {
    match curve {
        Curve::P256 => (
            b"ffffffff00000001000000000000000000000000ffffffffffffffffffffffff",
            b"5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b",
        ),
        Curve::P384 => (
            b"fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffeffffffff0000000000000000ffffffff",
            b"b3312fa7e23ee7e4988e056be3f82d19181d9c6efe8141120314088f5013875ac656398d8a2ed19d2a85c8edd3ec2aef",
        ),
        Curve::P521 => (
            b"01ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff\
              ffffffffffffffffffffffffffffffff",
            b"0051953eb9618e1c9a1f929a21a0b68540eea2da725b99b315f3b8b489918ef109e156193951ec7e937b1652c0bd3bb1bf07\
              3573df883d2c34f1ef451fd46b503f00",
        ),
    }
}

/// Checks whether a point is on a curve. The coordinates are big-endian numbers.
pub(super) fn is_on_curve(curve: Curve, x: &[u8], y: &[u8]) -> bool {
    let (prime, b) = parameters(curve);
    let (Some(prime), Some(b)) = (BigUint::parse_bytes(prime, 16), BigUint::parse_bytes(b, 16)) else { return false };
    let (x, y) = (BigUint::from_bytes_be(x), BigUint::from_bytes_be(y));
    // Unsigned: `y² + 3x = x³ + b`.
    x < prime && y < prime && (&y * &y + 3_u32 * &x) % &prime == (&x * &x * &x + b) % &prime
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The generators of the curves.
    const GENERATORS: [(Curve, &[u8], &[u8]); 3] = [
        (
            Curve::P256,
            b"6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296",
            b"4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5",
        ),
        (
            Curve::P384,
            b"aa87ca22be8b05378eb1c71ef320ad746e1d3b628ba79b9859f741e082542a385502f25dbf55296c3a545e3872760ab7",
            b"3617de4a96262c6f5d9e98bf9292dc29f8f41dbd289a147ce9da3113b5f0b8c00a60b1ce1d7e819d7a431d7c90ea0e5f",
        ),
        (
            Curve::P521,
            b"00c6858e06b70404e9cd9e3ecb662395b4429c648139053fb521f828af606b4d3dbaa14b5e77efe75928fe1dc127a2ffa8de\
              3348b3c1856a429bf97e7e31c2e5bd66",
            b"011839296a789a3bc0045c8a5fb42c7d1bd998f54449579b446817afbd17273e662c97ee72995ef42640c550b9013fad0761\
              353c7086a272c24088be94769fd16650",
        ),
    ];

    fn bytes(digits: &[u8]) -> Vec<u8> {
        BigUint::parse_bytes(digits, 16).map(|number| number.to_bytes_be()).unwrap_or_default()
    }

    #[test]
    fn only_points_of_the_curve_are_on_it() {
        for (curve, x, y) in GENERATORS {
            let (x, y) = (bytes(x), bytes(y));
            assert!(is_on_curve(curve, &x, &y), "{curve:?}");
            assert!(!is_on_curve(curve, &y, &x), "{curve:?}");
            let mut other = y.clone();
            other.iter_mut().for_each(|byte| *byte ^= 1);
            assert!(!is_on_curve(curve, &x, &other), "{curve:?}");
        }
        assert!(!is_on_curve(Curve::P256, &[0; 32], &[0; 32]));
    }
}
