#include "train/measure/layer_times.hpp"

#include "base/numbers.hpp"
#include "device/device.hpp"
#include "train/measure/resource_counters.hpp"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>

namespace trainctl::train {
namespace {

constexpr const char* kBefore = "(before the first layer)";
constexpr const char* kLoss = "(loss)";

/// Indices of the parts that a step's time is divided into.
constexpr std::size_t kElsewhere = 0;
std::size_t forward_part(std::size_t layer) { return 2 * layer + 1; }
std::size_t backward_part(std::size_t layer) { return 2 * layer + 2; }

}  // namespace

class LayerTimes::State final : public LayerTrace {
 public:
  State(const stage::Model& model, at::Device device, const Clock& clock)
      : LayerTrace(model), clock_(clock), layers_{{.name = kBefore}} {
    for (const auto& [name, tensor] : model.parameters()) {
      const std::string layer = layer_of(name);
      if (by_name_.emplace(layer, layers_.size()).second) layers_.push_back({.name = layer});
    }
    layers_.push_back({.name = kLoss});
    seconds_.resize(2 * layers_.size() + 1);
    line_ = device::make_event_timer(device, static_cast<int>(seconds_.size()));
    last_reading_ = clock_.now();
    if (line_) line_->mark(kElsewhere);
  }

  void end_step() {
    switch_to(kElsewhere);
    ++steps_;
    if (!line_) return;
    add(line_->end_step());
    line_->mark(kElsewhere);  // the time between two steps belongs to the second one
  }

  [[nodiscard]] std::int64_t steps() const { return steps_; }

  std::vector<LayerRow> rows() {
    if (line_) add(line_->finish());
    const double all = std::accumulate(seconds_.begin(), seconds_.end(), 0.0);
    std::vector<LayerRow> rows;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const bool has_parameters = i > 0 && i + 1 < layers_.size();
      const double taken = seconds_[forward_part(i)] + seconds_[backward_part(i)];
      if (has_parameters || layers_[i].operators > 0)
        rows.push_back(row_of(i, all > 0 ? taken / all : 0));
    }
    return rows;
  }

 private:
  /// What is recorded for a layer apart from its times.
  struct Notes {
    std::string name;
    std::map<std::string, double> kinds;  // host seconds of the operators that take its parameters
    std::int64_t calls = 0;
    std::int64_t flops = 0;
    std::int64_t operators = 0;  // of the forward pass, including those without parameters
    std::vector<std::int64_t> output;
  };

  void scope_begins(const std::string& name) override {
    if (name == "forward") enter(LayerPass::forward);
    if (name == "backward") enter(LayerPass::backward);
  }

  void scope_ends(const std::string& name) override {
    if (name == "forward") enter(LayerPass::loss);
    if (name == "backward") enter(LayerPass::none);
  }

  /// The AccumulateGrad node of a parameter has no sequence number. It also runs the gradient
  /// all-reduce, which belongs to no layer.
  void node_begins(const LayerFrame& frame, const at::RecordFunction& node) override {
    switch_to(node.seqNr() < 0 ? kElsewhere : backward_part(layer_at(frame.place)));
  }

  void node_ends(const LayerFrame& outer) override {
    switch_to(outer.node.empty() ? kElsewhere : backward_part(layer_at(outer.place)));
  }

  void operator_begins(const LayerFrame& frame, const at::RecordFunction& op,
                       LayerCall& call) override {
    if (is_between_nodes(frame)) return;
    const std::size_t layer = layer_at(frame.place);
    if (call.outermost && frame.node.empty()) switch_to(forward_part(layer));
    if (call.outermost && !frame.node.empty() && at::GradMode::is_enabled())
      switch_to(backward_part(layer));  // the layer is being recomputed
    count_flops(layers_[layer], op, call);
  }

  void operator_ends(const LayerFrame& frame, const at::RecordFunction& op,
                     const LayerCall& call) override {
    if (call.marked) --counted_;
    if (!call.outermost || !frame.node.empty() || is_between_nodes(frame)) return;
    Notes& notes = layers_[layer_at(frame.place)];
    const double begun = last_reading_;
    switch_to(kElsewhere);
    ++notes.operators;
    if (!frame.place.owns || frame.place.pass == LayerPass::loss) return;
    ++notes.calls;
    notes.kinds[frame.place.op] += last_reading_ - begun;
    const std::vector<at::Tensor> outputs = tensors_in(op.outputs());
    if (!outputs.empty()) notes.output = outputs.front().sizes().vec();
  }

  [[nodiscard]] bool is_between_nodes(const LayerFrame& frame) const {
    return pass() == LayerPass::backward && frame.node.empty();
  }

  [[nodiscard]] std::size_t layer_at(const LayerPlace& place) const {
    if (place.pass == LayerPass::loss) return layers_.size() - 1;
    const auto found = by_name_.find(place.layer);
    return found == by_name_.end() ? 0 : found->second;
  }

  /// Counts an operator once: operators that it calls are part of it.
  void count_flops(Notes& notes, const at::RecordFunction& op, LayerCall& call) {
    if (counted_ > 0) return;
    const std::int64_t flops = flops_of(op.name(), op.inputs());
    if (flops == 0) return;
    notes.flops += flops;
    call.marked = true;
    ++counted_;
  }

  /// Attributes the time since the last call to the current part and switches to `part`.
  void switch_to(std::size_t part) {
    const double now = clock_.now();
    if (line_) {
      line_->mark(static_cast<int>(part_));
    } else {
      seconds_[part_] += now - last_reading_;
    }
    last_reading_ = now;
    part_ = part;
  }

  void add(const std::vector<double>& seconds) {
    for (std::size_t i = 0; i < seconds_.size(); ++i) seconds_[i] += seconds[i];
  }

  [[nodiscard]] LayerRow row_of(std::size_t layer, double share) const {
    const Notes& notes = layers_[layer];
    const auto steps = static_cast<double>(std::max<std::int64_t>(steps_, 1));
    const auto kind =
        std::ranges::max_element(notes.kinds, {}, [](const auto& each) { return each.second; });
    return {.layer = notes.name,
            .kind = kind == notes.kinds.end() ? std::string() : kind->first,
            .calls = static_cast<double>(notes.calls) / steps,
            .forward_ms = seconds_[forward_part(layer)] * 1e3 / steps,
            .backward_ms = seconds_[backward_part(layer)] * 1e3 / steps,
            .share = share,
            .gflops = static_cast<double>(notes.flops) * 1e-9 / steps,
            .output = notes.output};
  }

  const Clock& clock_;
  std::vector<Notes> layers_;  // in the order of their parameters; the first is the code before the
                               // layers, the last is the loss
  std::vector<double> seconds_;               // by part
  std::unique_ptr<device::EventTimer> line_;  // null: times come from the host's clock
  std::unordered_map<std::string, std::size_t> by_name_;
  double last_reading_ = 0;
  std::size_t part_ = kElsewhere;
  int counted_ = 0;  // depth of running operators that are counted
  std::int64_t steps_ = 0;
};

LayerTimes::LayerTimes(const stage::Model& model, at::Device device, const Clock& clock)
    : state_(std::make_shared<State>(model, device, clock)) {
  scope_.emplace(state_, LayerUse::measurement);
}

LayerTimes::~LayerTimes() = default;

void LayerTimes::end_step() { state_->end_step(); }
std::int64_t LayerTimes::steps() const { return state_->steps(); }

std::vector<LayerRow> LayerTimes::finish() {
  scope_.reset();
  return state_->rows();
}

namespace {

std::string output_text(const LayerRow& row) {
  return row.output.empty() ? std::string() : shape_text(row.output);
}

std::string head_text(const LayerTableHeader& head) {
  const auto steps = fmt::format("Mean times of {} step{}. ", head.steps, plural(head.steps));
  if (head.on_device)
    return steps +
           "GPU times, measured between events on the CUDA stream; they include waits of the GPU "
           "for the CPU.\n\n";
  return steps + "CPU times, measured while the steps were recorded.\n\n";
}

}  // namespace

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string csv_quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string layers_as_csv(const std::vector<LayerRow>& rows) {
  std::string text = "layer,kind,calls,forward_ms,backward_ms,share,gflop,output\n";
  for (const LayerRow& row : rows) {
    text += fmt::format("{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.10g},{}\n", csv_quoted(row.layer),
                        row.kind, row.calls, row.forward_ms, row.backward_ms, row.share, row.gflops,
                        csv_quoted(output_text(row)));
  }
  return text;
}

std::string layers_as_text(const std::vector<LayerRow>& rows, const LayerTableHeader& head) {
  constexpr std::size_t kMostWidth = 48;
  std::size_t width = 5;
  for (const LayerRow& row : rows) width = std::clamp(row.layer.size(), width, kMostWidth);
  std::string text = head_text(head);
  text += fmt::format("{:<{}} {:<20} {:>6} {:>11} {:>11} {:>6} {:>10} {}\n", "layer", width, "kind",
                      "calls", "forward ms", "backward ms", "share", "GFLOP", "output");
  for (const LayerRow& row : rows) {
    text += fmt::format("{:<{}.{}} {:<20.20} {:>6.4g} {:>11.3f} {:>11.3f} {:>5.1f}% {:>10.4g} {}\n",
                        row.layer, width, width, row.kind, row.calls, row.forward_ms,
                        row.backward_ms, 100 * row.share, row.gflops, output_text(row));
  }
  return text;
}

}  // namespace trainctl::train
