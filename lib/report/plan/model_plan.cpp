#include "report/plan/model_plan.hpp"

#include "base/numbers.hpp"
#include "report/text/table.hpp"

#include <fmt/ranges.h>

#include <cctype>

namespace trainctl::report {
namespace {

/// Peaks in TFLOP/s with float32 accumulation and without sparsity (data sheets list twice as much
/// with it); 0: not supported by the GPU.
struct Peak {
  std::array<std::string_view, 2> words;  // words in the name that the driver reports
  double bf16 = 0;
  double fp16 = 0;
  double tf32 = 0;
  double fp32 = 0;  // of IEEE float32, without tensor cores
};

// The values are from NVIDIA's data sheets; for GeForce cards from the white papers of their
// architectures (Ada, Ampere GA102). The more specific name comes first.
constexpr std::array kPeaks{
    Peak{{"H200", "NVL"}, 835.5, 835.5, 417.5, 60},
    Peak{{"H200", ""}, 989.5, 989.5, 494.7, 67},
    Peak{{"H100", "PCIe"}, 756.5, 756.5, 378, 51.2},
    Peak{{"H100", "NVL"}, 835.5, 835.5, 417.5, 60},
    Peak{{"H100", ""}, 989.5, 989.5, 494.7, 67},
    Peak{{"A100", ""}, 312, 312, 156, 19.5},
    Peak{{"L40S", ""}, 362, 362, 183, 91.6},
    Peak{{"L4", ""}, 121, 121, 60, 30.3},
    Peak{{"T4", ""}, 0, 65, 0, 8.1},
    Peak{{"RTX", "4090"}, 165.2, 165.2, 82.6, 82.6},
    Peak{{"RTX", "3090"}, 71, 71, 35.6, 35.6},
};

std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  return words;
}

bool has(const std::vector<std::string>& words, std::string_view word) {
  return word.empty() || std::ranges::find(words, word) != words.end();
}

double of_precision(const Peak& peak, std::string_view precision) {
  if (precision == "bf16-mixed") return peak.bf16;
  if (precision == "16-mixed") return peak.fp16;
  if (precision == "tf32") return peak.tf32;
  return precision == "32-true" ? peak.fp32 : 0;
}

using events::Measured;

constexpr double kGb = 1e9;      // a 24 GB GPU has 22.5 to 24 GiB, so this is conservative
constexpr double kCudaGb = 0.6;  // CUDA context, and the workspaces of its libraries
constexpr std::array kGpuSizesGb{8, 12, 16, 24, 40, 48, 80, 141};

bool on_cpu(const Measured& model) { return model.device == "cpu"; }

/// Returns the bytes of a step's tensors on any device.
std::int64_t tensor_bytes(const Measured& model) {
  return model.weight_bytes + model.gradient_bytes + model.optimizer_bytes + model.average_bytes +
         model.activation_bytes + model.batch_bytes;
}

bool is_extrapolated(const Measured& model) { return model.measured_batches.size() > 1; }

/// Returns a text such as "3.63 G".
std::string with_prefix(double value) {
  constexpr std::array kPrefixes{" ", " k", " M", " G", " T", " P"};
  std::size_t prefix = 0;
  while (value >= 999.5 && prefix + 1 < kPrefixes.size()) {
    value /= 1000;
    ++prefix;
  }
  return fmt::format("{:.3g}{}", value, kPrefixes.at(prefix));
}

std::string parameters_text(const Measured& model) {
  const std::string all = with_thousands(model.parameters);
  if (model.trainable_parameters == model.parameters) return all + ", all of them trainable";
  return fmt::format("{}, {} of them trainable", all, with_thousands(model.trainable_parameters));
}

std::string flops_text(const Measured& model) {
  return fmt::format("{}FLOP per sample forward, {}FLOP with the backward pass",
                     with_prefix(static_cast<double>(model.forward_flops)),
                     with_prefix(static_cast<double>(model.step_flops)));
}

std::string measured_text(const Measured& model) {
  const std::string where = "on " + model.device + ", ";
  if (!is_extrapolated(model))
    return where +
           fmt::format("in steps of {} synthetic samples", with_thousands(model.batch_size));
  return where + fmt::format("in steps of {} synthetic samples; steps of {} are extrapolated",
                             fmt::join(model.measured_batches, " and "),
                             with_thousands(model.batch_size));
}

std::string gpus_text(const Plan& plan) {
  const std::vector<int> sizes = gpus_that_fit(plan);
  const std::string text =
      sizes.empty() ? fmt::format("a step does not fit on GPUs of up to {} GB", kGpuSizesGb.back())
                    : fmt::format("a step fits on GPUs of {} GB", fmt::join(sizes, ", "));
  if (!on_cpu(*plan.model)) return text;
  const std::int64_t copies = plan.model->gpu_copy_bytes;
  const std::string more =
      copies == 0 ? ""
                  : fmt::format(", plus {} for copies that undo a step with NaN or Inf",
                                human_bytes(copies));
  return text + "; estimated from the tensors on the CPU" + more;
}

std::string speed_text(const Plan& plan, const PlannedSpeed& speed) {
  const Measured& model = *plan.model;
  std::string text = human_duration(speed.step_s) + " per step";
  if (speed.rounds > 1)
    text += fmt::format(" ({} to {} in {} measurements)", human_duration(speed.range.low_s),
                        human_duration(speed.range.high_s), speed.rounds);
  text += fmt::format(", {} samples/s, {}FLOP/s", rate_text(speed.samples_per_s),
                      with_prefix(speed.flops_per_s));
  if (on_cpu(model))
    text += fmt::format(" with {} thread{}", model.num_threads, plural(model.num_threads));
  if (speed.utilization)  // HFU counts all operations, MFU omits recomputed ones
    text += fmt::format(", {} % of the peak of {} ({})", percent_text(*speed.utilization),
                        printable(model.device_name), plan.recomputes ? "HFU" : "MFU");
  return text;
}

/// Returns "3 epochs", or "250 steps" if the run ends within an epoch.
std::string whole_run(const Plan& plan) {
  const bool ends_in_epoch = !plan.epochs || *plan.steps != *plan.epochs * plan.steps_per_epoch;
  return ends_in_epoch ? counted(*plan.steps, "step") : counted(*plan.epochs, "epoch");
}

std::string eta_text(const Plan& plan, const PlannedSpeed& speed) {
  std::string text = human_duration(speed.epoch_s) + " per epoch";
  if (speed.run_s) text += ", " + human_duration(*speed.run_s) + " for " + whole_run(plan);
  return text + ", without validation and data loading";
}

}  // namespace

std::optional<double> peak_flops(std::string_view device, std::string_view precision) {
  const std::vector<std::string> words = words_of(device);
  // These names mean a part of a GPU, a slower chip with the same name, or another model ("3090
  // Ti").
  for (const char* other : {"MIG", "Laptop", "Ti", "D", "Max"}) {
    if (has(words, other)) return std::nullopt;
  }
  for (const Peak& peak : kPeaks) {
    if (!has(words, peak.words[0]) || !has(words, peak.words[1])) continue;
    const double tera = of_precision(peak, precision);
    return tera > 0 ? std::optional(tera * 1e12) : std::nullopt;
  }
  return std::nullopt;
}

std::uint64_t step_bytes(const Measured& model) {
  return static_cast<std::uint64_t>(tensor_bytes(model) + model.kernel_bytes);
}

std::uint64_t host_bytes(const Measured& model, int ranks) {
  const auto process = static_cast<std::uint64_t>(model.process_bytes + model.best_bytes);
  const std::uint64_t each = on_cpu(model) ? process + step_bytes(model) : process;
  return each * static_cast<std::uint64_t>(ranks) + static_cast<std::uint64_t>(model.saved_bytes);
}

std::vector<int> gpus_that_fit(const Plan& plan) {
  const Measured& model = *plan.model;
  double needed = kCudaGb * kGb + static_cast<double>(tensor_bytes(model) + model.gpu_copy_bytes);
  if (!on_cpu(model)) needed += static_cast<double>(model.kernel_bytes);
  for (const PlannedSplit& split : plan.splits) needed += static_cast<double>(split.device_bytes);
  std::vector<int> sizes;
  for (const int size : kGpuSizesGb) {
    if (needed <= size * kGb) sizes.push_back(size);
  }
  return sizes;
}

std::optional<PlannedSpeed> speed_of(const Plan& plan) {
  if (!plan.model || !plan.model->step_s || plan.model->measured_batches.empty())
    return std::nullopt;
  const Measured& model = *plan.model;
  const auto rows = static_cast<double>(model.measured_batches.back());
  PlannedSpeed speed;
  speed.samples_per_s = *model.step_s > 0 ? rows / *model.step_s : 0;
  const double batches = static_cast<double>(model.batch_size) / rows;
  speed.step_s = *model.step_s * batches;
  speed.rounds = model.step_rounds_s.size();
  speed.range = {speed.step_s, speed.step_s};
  if (speed.rounds > 0) {
    const auto [low, high] = std::ranges::minmax(model.step_rounds_s);
    speed.range = {low * batches, high * batches};
  }
  speed.flops_per_s = speed.samples_per_s * static_cast<double>(model.step_flops);
  speed.epoch_s = speed.step_s * static_cast<double>(plan.batches_per_epoch);
  if (plan.steps && plan.steps_per_epoch > 0)
    speed.run_s = speed.epoch_s * static_cast<double>(*plan.steps) /
                  static_cast<double>(plan.steps_per_epoch);
  if (const auto peak = peak_flops(model.device_name, model.precision))
    speed.utilization = speed.flops_per_s / *peak;
  return speed;
}

std::string model_table_text(const Plan& plan, const Style& style) {
  if (!plan.model) return {};
  const Measured& model = *plan.model;
  std::vector<Column> columns{left("the model on " + model.device), "per process"};
  if (plan.ranks_here > 1) columns.push_back({fmt::format("{} processes", plan.ranks_here)});
  Table table(columns);
  const std::pair<const char*, std::int64_t> parts[] = {
      {"weights", model.weight_bytes},
      {"gradients", model.gradient_bytes},
      {"optimizer state", model.optimizer_bytes},
      {"averaged weights", model.average_bytes},
      {"activations", model.activation_bytes},
      {"batch", model.batch_bytes},
      {"temporary buffers", model.kernel_bytes},
      {"peak of a step", static_cast<std::int64_t>(step_bytes(model))},
      {"best weights", model.best_bytes},
      {"checkpoint copy", model.saved_bytes},
      {"libraries", model.process_bytes}};
  for (const auto& [part, bytes] : parts) {
    if (bytes == 0) continue;
    const int ranks = part == std::string_view("checkpoint copy") ? 1 : plan.ranks_here;
    std::vector<std::string> cells{part, human_bytes(bytes)};
    if (plan.ranks_here > 1) cells.push_back(human_bytes(bytes * ranks));
    table.add(std::move(cells));
  }
  return to_text(table, style);
}

std::vector<std::pair<std::string, std::string>> model_facts(const Plan& plan) {
  if (!plan.model) {
    if (plan.no_model.empty()) return {};
    return {{"model", "not measured: " + plan.no_model}};
  }
  const Measured& model = *plan.model;
  std::vector<std::pair<std::string, std::string>> facts{{"parameters", parameters_text(model)},
                                                         {"work", flops_text(model)},
                                                         {"measured", measured_text(model)},
                                                         {"GPUs", gpus_text(plan)}};
  if (!model.recomputes_why.empty())
    facts.emplace_back("activations", printable(model.recomputes_why));
  if (const auto speed = speed_of(plan)) {
    facts.emplace_back("speed", speed_text(plan, *speed));
    facts.emplace_back("time", eta_text(plan, *speed));
  }
  return facts;
}

Json model_json(const Plan& plan) {
  if (!plan.model) return nullptr;
  const Measured& model = *plan.model;
  Json speed;
  if (const auto found = speed_of(plan)) {
    const Json utilization = or_null(found->utilization);
    speed = joined({{{"step_s", found->step_s},
                     {"step_low_s", found->range.low_s},
                     {"step_high_s", found->range.high_s}},
                    JSON_FIELDS(*found, rounds, samples_per_s, flops_per_s),
                    JSON_FIELDS(model, num_threads, taken_cores),
                    JSON_FIELDS(*found, epoch_s, run_s),
                    {{"mfu", plan.recomputes ? Json(nullptr) : utilization},
                     {"hfu", plan.recomputes ? utilization : Json(nullptr)}}});
  }
  return {{"device", model.device},
          {"device_name", or_null(model.device_name)},
          {"precision", model.precision},
          {"parameters", model.parameters},
          {"trainable_parameters", model.trainable_parameters},
          {"flops", {{"forward", model.forward_flops}, {"step", model.step_flops}}},
          {"memory",
           {{"weights", model.weight_bytes},
            {"gradients", model.gradient_bytes},
            {"optimizer", model.optimizer_bytes},
            {"averages", model.average_bytes},
            {"gpu_copies", model.gpu_copy_bytes},
            {"activations", model.activation_bytes},
            {"batch", model.batch_bytes},
            {"kernels", model.kernel_bytes},
            {"best_weights", model.best_bytes},
            {"saved_state", model.saved_bytes},
            {"process", model.process_bytes}}},
          {"step_bytes", step_bytes(model)},
          {"host_bytes", host_bytes(model)},
          {"measured_batches", model.measured_batches},
          {"extrapolated", is_extrapolated(model)},
          {"fits_gpus_gb", gpus_that_fit(plan)},
          {"speed", speed}};
}

}  // namespace trainctl::report
