#include "log/log.hpp"

#include "log/stream_writer.hpp"

#include <spdlog/sinks/base_sink.h>

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>

namespace trainctl::log {
namespace {

spdlog::level::level_enum level_of(Level level) {
  switch (level) {
    case Level::quiet: return spdlog::level::err;
    case Level::normal: return spdlog::level::info;
    case Level::verbose: return spdlog::level::debug;
    case Level::debug: return spdlog::level::trace;
  }
  return spdlog::level::info;
}

std::string_view color_code(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::trace: return "\x1b[37m";
    case spdlog::level::debug: return "\x1b[36m";
    case spdlog::level::info: return "\x1b[32m";
    case spdlog::level::warn: return "\x1b[33m\x1b[1m";
    case spdlog::level::err: return "\x1b[31m\x1b[1m";
    default: return "\x1b[1m\x1b[41m";
  }
}

/// spdlog's own sinks ignore that a write fails, as one to a non-blocking pipe that is full does.
class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void set_colored(bool colored) { colored_ = colored; }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t formatted;
    formatter_->format(message, formatted);
    std::string text(formatted.data(), formatted.size());
    if (colored_ && message.color_range_end > message.color_range_start) {
      text.insert(message.color_range_end, "\x1b[m");
      text.insert(message.color_range_start, color_code(message.level));
    }
    write_log(text);
  }
  void flush_() override {}

  std::atomic<bool> colored_ = false;
};

const std::shared_ptr<StderrSink>& sink() {
  static const auto made = std::make_shared<StderrSink>();
  return made;
}

}  // namespace

spdlog::logger& get() {
  static const auto logger = [] {
    auto made = std::make_shared<spdlog::logger>("trainctl", sink());
    made->set_pattern("[%H:%M:%S.%e] %^%l%$ %v");
    return made;
  }();
  return *logger;
}

void set_up(Level level, Colours colours) {
  sink()->set_colored(colours == Colours::on);
  get().set_level(level_of(level));
}

}  // namespace trainctl::log
