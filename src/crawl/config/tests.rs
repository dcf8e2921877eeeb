use super::*;

fn error_of(text: &str) -> String {
    match Settings::from_toml(text).and_then(|settings| settings.check()) {
        Ok(()) => panic!("accepted: {text}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn an_empty_file_is_the_defaults_and_they_pass_their_own_check() {
    let settings = Settings::from_toml("").unwrap();
    assert_eq!(settings, Settings::default());
    assert_eq!(settings.check(), Ok(()));
    assert_eq!(settings.delay_ms, 1_000);
}

#[test]
fn values_of_every_type_are_read() {
    let text = r#"
        contact = "https://example.org/bot"
        delay_ms = 250
        allow_private = true
        dns = ["127.0.0.1:5353", "::1", "[::1]:54"]
        extra_parameters = ["sid"]
        extra_ca = "ca.pem"
        extractor = "lol"
        stay = "domain"
        cores = [0, 3]
    "#;
    let settings = Settings::from_toml(text).unwrap();
    assert_eq!(settings.contact, "https://example.org/bot");
    assert_eq!(settings.delay_ms, 250);
    assert!(settings.allow_private);
    let dns: Vec<String> = settings.dns.iter().map(SocketAddr::to_string).collect();
    assert_eq!(dns, ["127.0.0.1:5353", "[::1]:53", "[::1]:54"]);
    assert_eq!(settings.extra_parameters, ["sid"]);
    assert_eq!(settings.extra_ca, Some(PathBuf::from("ca.pem")));
    assert_eq!((settings.extractor, settings.stay), (Extractor::Lol, Stay::Domain));
    assert_eq!(settings.cores, [0, 3]);
}

#[test]
fn an_unknown_key_is_named_with_the_closest_known_one() {
    let error = error_of("dealy_ms = 5");
    assert!(error.contains("`dealy_ms`") && error.contains("`delay_ms`"), "{error}");
    let error = error_of("[crawler]\nx = 1");
    assert!(error.contains("`crawler`") && !error.contains("did you mean"), "{error}");
}

#[test]
fn a_bad_value_is_named_with_its_key_and_what_is_allowed() {
    let error = error_of("delay_ms = 86400001");
    assert_eq!(error, "delay_ms = 86400001: must be a whole number from 0 to 86400000");
    assert!(error_of("delay_ms = -1").contains("delay_ms = -1: must be a whole"));
    assert!(error_of("delay_ms = \"1s\"").contains("delay_ms = \"1s\""));
    assert!(error_of("dns_tries = 300").contains("from 1 to 10"));
    assert!(error_of("extractor = \"regex\"").contains("\"own\" or \"lol\""));
    assert!(error_of("dns = [\"resolver.example\"]").contains("IP:PORT"));
    assert!(error_of("dns = [\"9.9.9.9:0\"]").contains("IP:PORT"));
    assert!(error_of("allow_private = 1").contains("true or false"));
    let too_large = limits::BODY_BYTES_MAX + 1;
    assert!(error_of(&format!("body_bytes_max = {too_large}")).starts_with("body_bytes_max"));
}

#[test]
fn only_codings_that_can_be_decoded_are_offered() {
    let read = |text: &str| Settings::from_toml(&format!("accept_encoding = \"{text}\""));
    assert_eq!(Settings::default().accept_encoding, "gzip");
    for good in ["", "gzip", "gzip, br", "zstd,br , gzip", "deflate"] {
        assert_eq!(read(good).unwrap().accept_encoding, good);
    }
    for bad in ["gzip, gzip", "compress", "gzip;q=1", "gzip,", " ", "gzip\\r\\nX: y", "GZIP", "*"] {
        let error = read(bad).expect_err(bad).to_string();
        assert!(error.contains("of gzip, deflate, br, zstd"), "{bad}: {error}");
    }
}

#[test]
fn a_contact_cannot_break_out_of_the_user_agent() {
    for contact in ["a@b\\r\\nX: y", "a@b (c)", "a@b)", "nobody", "ä@b", "a@\\u202eb"] {
        assert!(error_of(&format!("contact = \"{contact}\"")).contains("e-mail"), "{contact}");
    }
    let long = format!("contact = \"a@{}\"", "b".repeat(limits::SETTING_TEXT_BYTES_MAX));
    assert!(error_of(&long).contains("e-mail"));
}

#[test]
fn broken_toml_says_where() {
    let error = error_of("delay_ms = 5\nmax_pages = = 3\n");
    assert!(error.contains("line 2"), "{error}");
}

#[test]
fn values_that_contradict_each_other_are_refused() {
    assert!(error_of("head_timeout_ms = 10").contains("first_byte_timeout_ms"));
    assert!(error_of("crawl_delay_ms_max = 1000\ndelay_ms = 2000").contains("delay_ms"));
    assert!(error_of("insecure_tls = true\nextra_ca = \"ca.pem\"").contains("extra_ca"));
}

#[test]
fn a_value_set_by_code_is_checked_like_one_from_the_file() {
    let settings = Settings { fetch_slots: 0, ..Settings::default() };
    let error = settings.check().unwrap_err().to_string();
    assert_eq!(error, "fetch_slots = 0: must be a whole number from 1 to 65536");
}

#[test]
fn an_assignment_is_toml_or_a_bare_word() {
    let mut settings = Settings::default();
    for assignment in
        ["delay_ms = 7", "stay=host", "dns=[\"9.9.9.9\"]", "contact=mailto:a@b", "cores=[1]"]
    {
        settings.set_text(assignment).unwrap();
    }
    assert_eq!((settings.delay_ms, settings.stay), (7, Stay::Host));
    assert_eq!(settings.contact, "mailto:a@b");
    assert_eq!(settings.cores, [1]);
    assert!(settings.set_text("delay_ms").is_err());
    assert!(settings.set_text("delay_ms=soon").is_err());
    assert!(settings.set_text("delay_ms=1\nmax_pages=2").is_err());
}

#[test]
fn settings_written_as_toml_read_back_equal() {
    let settings = Settings {
        contact: "a@b".to_owned(),
        dns: vec!["[::1]:54".parse().unwrap()],
        extra_parameters: vec!["a\u{5d}".to_owned(), "b'c".to_owned()],
        extra_ca: Some(PathBuf::from("/x y/\"z\".pem")),
        stay: Stay::Host,
        warc_block_digest: true,
        ..Settings::default()
    };
    assert_eq!(Settings::from_toml(&settings.to_toml()), Ok(settings));
}

#[test]
fn every_setting_is_described_and_its_default_is_allowed() {
    let described = Settings::describe();
    assert_eq!(described.len(), Settings::NAMES.len());
    for setting in described {
        assert!(setting.why.ends_with('.'), "{} has no reason", setting.name);
        assert!(!setting.allowed.is_empty());
        let line = format!("{} = {}", setting.name, setting.default);
        assert_eq!(Settings::from_toml(&line), Ok(Settings::default()), "{line}");
    }
}

#[test]
fn cores_are_those_we_may_use() {
    let with = |cores: &[usize]| Settings { cores: cores.to_vec(), ..Settings::default() };
    assert_eq!(with(&[]).cores_among(&[0, 2]), Ok(vec![0, 2]));
    assert_eq!(with(&[2]).cores_among(&[0, 2]), Ok(vec![2]));
    assert!(with(&[1]).cores_among(&[0, 2]).unwrap_err().to_string().contains("core 1"));
    assert!(with(&[2, 2]).cores_among(&[0, 2]).unwrap_err().to_string().contains("twice"));
}

#[test]
fn a_list_of_cores_has_numbers_and_ranges() {
    assert_eq!(parse_cores("0,2-4"), Ok(vec![0, 2, 3, 4]));
    for bad in ["", "a", "3-1", "1,,2", "-1", "0-99999999999"] {
        assert!(parse_cores(bad).is_err(), "{bad}");
    }
}

#[test]
fn the_user_agent_names_product_and_contact() {
    let version = env!("CARGO_PKG_VERSION");
    let settings = Settings { contact: "https://a.example/".into(), ..Settings::default() };
    assert_eq!(settings.user_agent(), format!("nephila/{version} (+https://a.example/)"));
    assert_eq!(Settings::default().user_agent(), format!("nephila/{version}"));
}

#[test]
fn a_file_is_bounded_and_its_absence_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nephila.toml");
    let error = Settings::load(&path).unwrap_err().to_string();
    assert!(error.contains("nephila.toml"), "{error}");
    std::fs::write(&path, "#".repeat(limits::CONFIG_BYTES_MAX as usize)).unwrap();
    assert_eq!(Settings::load(&path), Ok(Settings::default()));
    std::fs::write(&path, "#".repeat(limits::CONFIG_BYTES_MAX as usize + 1)).unwrap();
    assert!(Settings::load(&path).unwrap_err().to_string().contains("longer"));
}
