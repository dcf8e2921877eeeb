//! Plays a hostile answer on a connection: its bytes, its pauses, its end. The log's draft of the
//! request records how far the answer came.

use crate::base::limits::WEB_IDLE_MS_MAX;
use crate::io::{Clock, NetError, deadline_in_ms};
use crate::lab::web::connection::{Transport, wait};
use crate::lab::web::hostile::{End, Script, Step};
use crate::lab::web::log::Draft;

/// Plays `script` to its end. If the client leaves before the end, the draft is cut there. Bytes
/// that the client sends meanwhile go to `inbox`.
pub(super) async fn play<C: Clock>(
    script: Script,
    transport: &mut impl Transport,
    inbox: &mut Vec<u8>,
    mut draft: Draft<'_, C>,
    clock: &C,
) -> Result<End, NetError> {
    if let Some(Step::Send(bytes)) = script.steps.first() {
        draft.tell(bytes, script.has_rules);
        draft.begin();
    }
    for step in script.steps {
        let (mut bytes, count, pause_ms) = match step {
            Step::Send(bytes) => (bytes, 1, 0),
            Step::Pause { ms } => (Vec::new(), 1, ms),
            Step::Repeat { bytes, count, pause_ms } => (bytes, count, pause_ms),
        };
        for _ in 0..count {
            if pause_ms > 0 {
                // A client that leaves ends the script at once, so that the log is complete.
                wait(transport, inbox, clock, deadline_in_ms(clock, pause_ms.into())).await?;
            }
            bytes = transport.send(bytes, deadline_in_ms(clock, WEB_IDLE_MS_MAX)).await?;
        }
    }
    match script.end {
        End::Keep => draft.deliver(),
        End::Close => {
            draft.deliver();
            transport.finish(deadline_in_ms(clock, WEB_IDLE_MS_MAX)).await;
        }
        End::Hold => stare(transport, clock).await,
        End::Reset => {}
    }
    Ok(script.end)
}

/// Receives and sends nothing until the client leaves or has been silent for too long itself.
pub(super) async fn stare(transport: &mut impl Transport, clock: &impl Clock) {
    let mut inbox = Vec::new();
    let mut deadline = deadline_in_ms(clock, WEB_IDLE_MS_MAX);
    while let Ok(true) = transport.receive(&mut inbox, deadline).await {
        inbox.clear();
        deadline = deadline_in_ms(clock, WEB_IDLE_MS_MAX);
    }
}
