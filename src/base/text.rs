//! Writes numbers, dates and identifiers into a buffer without `fmt`. With `write!` those of one
//! page cost 1.2 us, twice as much as the copy of its body; a whole header written with these
//! functions costs 0.6 us.

use super::WallTime;
use std::net::{IpAddr, SocketAddr};

/// Appends `value` in decimal.
pub fn push_number(out: &mut Vec<u8>, value: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    let mut rest = value;
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

/// Appends a date like `2026-01-31T23:59:59Z`.
pub fn push_date(out: &mut Vec<u8>, at: WallTime) {
    let (year, month, day, hour, minute, second) = at.civil();
    push_four(out, year);
    for (mark, value) in [(b'-', month), (b'-', day), (b'T', hour), (b':', minute), (b':', second)]
    {
        out.push(mark);
        push_two(out, value);
    }
    out.push(b'Z');
}

/// Appends a timestamp like `20260131235959`.
pub fn push_timestamp(out: &mut Vec<u8>, at: WallTime) {
    let (year, month, day, hour, minute, second) = at.civil();
    push_four(out, year);
    [month, day, hour, minute, second].into_iter().for_each(|value| push_two(out, value));
}

/// Appends the lowest `digits` hexadecimal digits of `value`, 32 at most.
pub fn push_hex(out: &mut Vec<u8>, value: u128, digits: usize) {
    let mut text = [0; 32];
    let text = &mut text[..digits];
    for (index, digit) in text.iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[(value >> (4 * index) & 15) as usize];
    }
    out.extend_from_slice(text);
}

/// Appends `address` as `fmt` would print it.
pub fn push_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            for (index, octet) in address.octets().into_iter().enumerate() {
                if index > 0 {
                    out.push(b'.');
                }
                push_number(out, octet.into());
            }
        }
        IpAddr::V6(address) => out.extend_from_slice(address.to_string().as_bytes()),
    }
}

/// Appends `address` as `fmt` would print it.
pub fn push_socket_address(out: &mut Vec<u8>, address: SocketAddr) {
    match address {
        SocketAddr::V4(address) => {
            push_address(out, (*address.ip()).into());
            out.push(b':');
            push_number(out, address.port().into());
        }
        SocketAddr::V6(address) => out.extend_from_slice(address.to_string().as_bytes()),
    }
}

fn push_four(out: &mut Vec<u8>, value: u64) {
    push_two(out, value / 100);
    push_two(out, value % 100);
}

fn push_two(out: &mut Vec<u8>, value: u64) {
    debug_assert!(value < 100);
    out.extend_from_slice(&[b'0' + (value / 10 % 10) as u8, b'0' + (value % 10) as u8]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(push: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        push(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn addresses_are_those_of_fmt() {
        for address in
            ["0.0.0.0:0", "127.0.0.1:80", "255.25.5.200:65535", "[::1]:8080", "[fe80::2%3]:1"]
        {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(text(|out| push_socket_address(out, address)), address.to_string());
            let ip = address.ip();
            assert_eq!(text(|out| push_address(out, ip)), ip.to_string());
        }
    }

    #[test]
    fn numbers_and_dates_are_those_of_fmt() {
        let mut value = 1u64;
        for n in 0..500u64 {
            value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = WallTime(value >> (n % 8));
            assert_eq!(text(|out| push_date(out, at)), at.to_string());
            assert_eq!(text(|out| push_timestamp(out, at)), at.compact());
            let number = value >> (n % 64);
            assert_eq!(text(|out| push_number(out, number)), number.to_string());
            assert_eq!(text(|out| push_hex(out, number.into(), 16)), format!("{number:016x}"));
        }
        assert_eq!(text(|out| push_number(out, 0)), "0");
        assert_eq!(text(|out| push_number(out, u64::MAX)), u64::MAX.to_string());
    }
}
