#pragma once

#include "trainyard/place/baechi/m_event_loop.hpp"

namespace trainyard {

/// Memory-constrained earliest task first: of all ready ops and all devices with memory for them, always schedules the
/// pair that can start first (see m_event_loop.hpp). Its proven bound is 2 - 1/n times the optimum without
/// communication, plus the longest chain of transfers. The bound covers neither memory nor the single channel of a
/// device.
///
/// J.-J. Hwang et al.: Scheduling precedence graphs in systems with interprocessor communication times. SIAM Journal on
/// Computing 18(2), 1989. With memory: B. Jeon et al.: Baechi. ACM SoCC 2020.
Schedule m_etf(const Problem& problem, const BaechiOptions& options = {});

}  // namespace trainyard
