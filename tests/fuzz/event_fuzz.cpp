// libFuzzer: any bytes are lines of a worker's event pipe. Each line is an event that survives a
// round trip, or throws Error(unexpected). The same bytes also fill the worker's heartbeat page.

#include "base/error.hpp"
#include "events/heartbeat.hpp"
#include "events/pipe.hpp"
#include "launch/supervise/hang_detection.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {

using namespace trainctl;

void expect_event_or_error(std::string_view line) {
  std::string written;
  try {
    written = events::encode(events::decode(line));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unexpected || error.message().empty()) std::abort();
    return;
  }
  if (written.find('\n') != std::string::npos) std::abort();
  if (events::encode(events::decode(written)) != written) std::abort();
}

/// Aborts unless the supervisor derives valid values from a heartbeat page with these bytes. Each
/// record of `bytes` is one state of the page and the time since the previous one.
void expect_valid_heartbeat(std::string_view bytes) {
  struct PageState {
    std::int64_t step, stamp, loaded;
    std::int32_t phase;
    std::uint16_t passed;
  };
  launch::HeartbeatMonitor monitor;
  events::Heartbeat page{};
  double now = 0;
  for (; bytes.size() >= sizeof(PageState); bytes.remove_prefix(sizeof(PageState))) {
    PageState state{};
    std::memcpy(&state, bytes.data(), sizeof state);
    page.global_step = state.step;
    page.phase = state.phase;
    page.monotonic_ns = state.stamp;
    page.loaded = state.loaded;
    now += state.passed;
    monitor.update(page, now);
    if (*events::phase_name(monitor.phase()) == '\0') std::abort();
    if (!std::isfinite(monitor.step_s()) || monitor.step_s() < 0) std::abort();
    if (monitor.limit_s() && !(*monitor.limit_s() > 0)) std::abort();
    const auto stall = monitor.stall(now + 1e6);
    if (stall && describe_stall(*stall).empty()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (std::string_view rest = bytes; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    expect_event_or_error(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  expect_valid_heartbeat(bytes);
  return 0;
}
