//! What a visit uses to reach a server: the resolver, the HTTP client and the decoders. They are
//! stages with a state of their own. The rest of the shard touches them only to count and to close.
//! Touched by one core.

use super::kit::Kit;
use crate::crawl::fetch::{Client, Timeouts, TlsError, TlsPolicy};
use crate::crawl::resolve::{DnsSettings, Resolver};
use crate::io::World;
use crate::proto::http::DecoderPool;
use std::cell::RefCell;

pub(super) struct Net<W: World> {
    pub resolver: Resolver<W>,
    pub client: Client<W>,
    pub decoders: RefCell<DecoderPool>,
}

impl<W: World> Net<W> {
    pub(super) fn open(kit: &Kit<W>) -> Result<Net<W>, TlsError> {
        let (world, plan) = (&kit.world, &kit.plan);
        let settings = &plan.settings;
        let tls = TlsPolicy::new(plan.extra_ca.as_deref(), settings.insecure_tls)?;
        let dns = DnsSettings {
            upstreams: plan.upstreams.clone(),
            timeout_ms: settings.dns_timeout_ms,
            tries: settings.dns_tries,
            allow_private: settings.allow_private,
        };
        let agent = settings.user_agent();
        let client = Client::new(world.clone(), &agent, Timeouts::of(settings), tls);
        Ok(Net {
            resolver: Resolver::new(world.clone(), dns),
            client: client.accepting(&settings.accept_encoding),
            decoders: RefCell::new(DecoderPool::for_bodies(settings.body_bytes_max)),
        })
    }
}
