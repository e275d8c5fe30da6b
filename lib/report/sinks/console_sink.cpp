#include "base/bounded_text.hpp"
#include "base/strings.hpp"
#include "report/record/transfer_name.hpp"
#include "report/sinks/epoch_table.hpp"
#include "report/sinks/sink.hpp"
#include "report/text/weights.hpp"

#include <fmt/format.h>

namespace trainctl::report {
namespace {

class ConsoleSink final : public Sink {
 public:
  explicit ConsoleSink(ConsoleOptions options)
      : options_(std::move(options)),
        table_({.metrics = options_.metrics, .style = options_.results_style}),
        bar_({options_.progress, options_.messages_style}, options_.messages) {}

  void on_event(int rank, const events::Event& event) override {
    if (const auto* warning = std::get_if<events::Warning>(&event)) warn(warning->message);
    if (rank != 0) return;
    if (const auto* hello = std::get_if<events::Hello>(&event)) {
      table_.set_transfer_name(transfer_name(hello->device));
    } else if (const auto* weights = std::get_if<events::WeightsSet>(&event)) {
      tell(weights_lines(*weights));
    } else if (const auto* started = std::get_if<events::RunStarted>(&event)) {
      table_.set_max_epochs(started->max_epochs);
      bar_.set_max_epochs(started->max_epochs);
      if (!started->recomputes_why.empty())
        tell({"trainer.activation_checkpointing: " + printable(started->recomputes_why)});
    } else if (const auto* resumed = std::get_if<events::Resumed>(&event)) {
      say_where(*resumed);
    } else if (const auto* progress = std::get_if<events::Progress>(&event)) {
      bar_.update(*progress);
    } else if (const auto* epoch = std::get_if<events::EpochEnded>(&event)) {
      bar_.rest();
      options_.results(table_.add(*epoch));
    }
  }

  void on_tick(double now) override { bar_.tick(now); }
  void close() override { bar_.rest(); }
  std::optional<std::string> news() override {
    return options_.take_notice ? options_.take_notice() : std::nullopt;
  }

 private:
  void warn(const std::string& message) {
    bar_.clear();
    options_.messages(paint("warning:", Ink::yellow, options_.messages_style) + " " +
                      printable_lines(bounded(message)) + "\n");
  }

  void say_where(const events::Resumed& resumed) {
    tell({fmt::format("goes on from {}: epoch {}, step {}", printable(resumed.path),
                      resumed.epoch + 1, with_thousands(resumed.global_step))});
    if (!resumed.bitwise)
      warn("the run goes on, but not bit for bit as it would have: " + resumed.why_not);
  }

  void tell(const std::vector<std::string>& lines) {
    bar_.clear();
    for (const std::string& line : lines)
      options_.messages((&line == &lines.front() ? "" : "  ") + line + "\n");
  }

  ConsoleOptions options_;
  EpochTable table_;
  ProgressBar bar_;
};

}  // namespace

std::unique_ptr<Sink> make_console_sink(ConsoleOptions options) {
  return std::make_unique<ConsoleSink>(std::move(options));
}

}  // namespace trainctl::report
