#include "engine/entry.h"

#include "base/machine/allocator.hpp"
#include "data/formats/lost_pages.hpp"
#include "engine/exchange.hpp"
#include "engine/failure.hpp"
#include "engine/worker.hpp"
#include "events/heartbeat.hpp"
#include "events/pipe.hpp"
#include "launch/supervise/failure_evidence.hpp"

#include <filesystem>
#include <optional>

namespace trainctl::engine {
namespace {

/// The error file is for when the pipe is gone, the event for when the disk is full; neither may
/// hide the cause.
void tell(const TrainctlEngineRequest& request, const Error& error, events::Failed failed,
          const train::EventSink& emit) {
  failed.kind = error.exit_code();
  failed.message = error.what();
  try {
    launch::write_error_file(std::filesystem::path(request.run_dir) / "logs", request.rank, error);
  } catch (...) {
  }
  try {
    emit(failed);
  } catch (...) {
  }
}

/// Where the process ends in a signal handler, the file is all that can be written.
void report_lost_pages(const TrainctlEngineRequest& request) {
  data::report_lost_pages(
      {launch::error_path(std::filesystem::path(request.run_dir) / "logs", request.rank),
       fmt::format(R"({{"schema":"trainctl.rank_error/1","rank":{},"kind":{},"message":")",
                   request.rank, static_cast<int>(ErrorKind::data)),
       "\"}\n"});
}

int run(const TrainctlEngineRequest& request) {
  if (request.mode == kExchangeMode) return exchange(request);
  keep_freed_memory();
  report_lost_pages(request);
  std::optional<events::EventWriter> writer;
  if (request.event_fd >= 0) writer.emplace(request.event_fd);
  std::optional<events::HeartbeatPage> page;
  const train::EventSink emit = [&](const events::Event& event) {
    if (!writer) return;
    writer->write(event);
    if (page) page->get().told.fetch_add(1, std::memory_order_relaxed);
  };
  std::optional<Worker> worker;
  try {
    if (request.heartbeat_fd >= 0)
      page.emplace(events::HeartbeatPage::attach(request.heartbeat_fd));
    worker.emplace(request, page ? &page->get() : nullptr, emit);
    return worker->run();
  } catch (...) {
    const Error error = as_error(std::current_exception());
    tell(request, error, worker ? worker->failure_at() : events::Failed{.rank = request.rank},
         emit);
    return error.exit_code();
  }
}

}  // namespace
}  // namespace trainctl::engine

extern "C" int trainctl_engine_v1(const TrainctlEngineRequest* request) {
  try {
    return trainctl::engine::run(*request);
  } catch (...) {
    return static_cast<int>(trainctl::ErrorKind::unexpected);
  }
}
