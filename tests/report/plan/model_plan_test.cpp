#include "report/plan/model_plan.hpp"

#include "base/strings.hpp"
#include "support/catch.hpp"

#include <algorithm>

using namespace trainctl;
using namespace trainctl::report;

namespace {

constexpr std::int64_t kMiB = 1 << 20;

Plan resnet() {
  events::Measured model;
  model.device = "cpu";
  model.precision = "32-true";
  model.parameters = 11'181'642;
  model.trainable_parameters = 11'181'642;
  model.weight_bytes = 43 * kMiB;
  model.gradient_bytes = 42 * kMiB;
  model.optimizer_bytes = 85 * kMiB;
  model.activation_bytes = 1500 * kMiB;
  model.batch_bytes = 18 * kMiB;
  model.kernel_bytes = 12 * kMiB;
  model.best_bytes = 43 * kMiB;
  model.process_bytes = 250 * kMiB;
  model.forward_flops = 3'628'146'688;
  model.step_flops = 10'600'000'000;
  model.batch_size = 32;
  model.measured_batches = {32};
  Plan plan{.config = "resnet.yaml",
            .batch_size = 32,
            .batches_per_epoch = 100,
            .steps_per_epoch = 100,
            .epochs = 3,
            .steps = 300};
  plan.available_bytes = std::uint64_t{8} << 30;
  plan.splits = {{.name = "train", .dataset = "cifar10", .samples = 3200, .cache = "none"}};
  plan.model = model;
  return plan;
}

}  // namespace

TEST_CASE("plan: the parts of a model are added up and decide the verdict") {
  Plan plan = resnet();
  CHECK(step_bytes(*plan.model) == 1700 * kMiB);
  CHECK(host_bytes(*plan.model) == (1700 + 43 + 250) * kMiB);
  const std::string text = plan_text(plan, {});
  CHECK_THAT(text,
             Contains("activations") && Contains("1.5 GiB") && Contains("peak of a step") &&
                 Contains("11,181,642, all of them trainable") &&
                 Contains("3.63 GFLOP per sample forward, 10.6 GFLOP with the backward pass") &&
                 Contains("on cpu, in steps of 32 synthetic samples\n"));
  CHECK_THAT(text, !Contains("not included: the model") && !Contains("averaged weights"));
  CHECK(std::string(verdict_of(plan)) == "fits");
  plan.available_bytes = 1900 * kMiB;
  CHECK(std::string(verdict_of(plan)) == "exceeds");
  CHECK_THAT(plan_text(plan, {}), Contains("trainer.accumulate_grad_batches") &&
                                      Contains("trainer.activation_checkpointing=blocks") &&
                                      !Contains("loader.num_workers"));
  const Json document = plan_document(plan);
  CHECK(document["all_bytes"] == (1700 + 43 + 250) * kMiB);
  CHECK(document["model"]["step_bytes"] == 1700 * kMiB);
  CHECK(document["model"]["memory"]["optimizer"] == 85 * kMiB);
  CHECK(document["model"]["speed"].is_null());
  CHECK(document["no_model"].is_null());
}

TEST_CASE("plan: the copy for checkpoints is counted once for any number of processes") {
  Plan plan = resnet();
  plan.model->saved_bytes = 171 * kMiB;
  CHECK(host_bytes(*plan.model) == (1993 + 171) * kMiB);
  CHECK(step_bytes(*plan.model) == 1700 * kMiB);
  CHECK(plan.all_bytes() == (1993 + 171) * kMiB);
  plan.ranks = plan.ranks_here = 4;
  CHECK(plan.all_bytes() == (4 * 1993 + 171) * kMiB);
  const auto lines = split(plan_text(plan, {}), '\n');
  const auto row = std::ranges::find_if(
      lines, [](const std::string& line) { return line.starts_with(" checkpoint copy"); });
  REQUIRE(row != lines.end());
  const std::size_t first = row->find("171.0 MiB");
  REQUIRE(first != std::string::npos);
  CHECK(row->find("171.0 MiB", first + 1) != std::string::npos);
  CHECK(plan_document(plan)["model"]["memory"]["saved_state"] == 171 * kMiB);
  CHECK_THAT(plan_text(resnet(), {}), !Contains("checkpoint copy"));
}

TEST_CASE("plan: shows what activation_checkpointing: auto would choose") {
  Plan plan = resnet();
  CHECK_THAT(plan_text(plan, {}), !Contains("they are kept"));
  plan.model->recomputes_why =
      "activations need about 1.5 GiB plus a margin of 15 %, and 9.0 GiB are free, so they are "
      "kept in memory";
  CHECK_THAT(plan_text(plan, {}), Contains("9.0 GiB are free, so they are kept"));
}

TEST_CASE("plan: frozen parameters and extrapolated batch sizes are reported") {
  Plan plan = resnet();
  plan.ranks = plan.ranks_here = 2;
  plan.model->trainable_parameters = 5'130;
  plan.model->measured_batches = {4, 8};
  const std::string text = plan_text(plan, {});
  CHECK_THAT(text,
             Contains("11,181,642, 5,130 of them trainable") &&
                 Contains("in steps of 4 and 8 synthetic samples; steps of 32 are extrapolated") &&
                 Contains("2 processes"));
  CHECK(plan_document(plan)["model"]["extrapolated"] == true);
}

TEST_CASE("gpus_that_fit: space for CUDA, cached images and copies is included") {
  Plan plan = resnet();
  CHECK(gpus_that_fit(plan) == std::vector<int>{8, 12, 16, 24, 40, 48, 80, 141});
  plan.model->activation_bytes = 7'300'000'000;
  CHECK(gpus_that_fit(plan).front() == 12);
  plan.splits[0].device_bytes = 60'000'000'000;
  CHECK(gpus_that_fit(plan) == std::vector<int>{80, 141});
  plan.model->activation_bytes = 200'000'000'000;
  CHECK(gpus_that_fit(plan).empty());
  CHECK_THAT(plan_text(plan, {}),
             Contains("does not fit on GPUs of up to 141 GB; estimated from the tensors on"));
  plan = resnet();
  plan.model->gpu_copy_bytes = 8000 * kMiB;
  CHECK(gpus_that_fit(plan).front() == 12);
  CHECK(step_bytes(*plan.model) == 1700 * kMiB);  // the CPU has no copy
  CHECK_THAT(
      plan_text(plan, {}),
      Contains("the tensors on the CPU, plus 7.8 GiB for copies that undo a step with NaN or Inf"));
}

TEST_CASE("plan --probe: shows rate, duration and the share of a known peak") {
  Plan plan = resnet();
  CHECK_FALSE(speed_of(plan).has_value());
  plan.model->step_s = 0.5;
  plan.model->num_threads = 2;
  const PlannedSpeed speed = *speed_of(plan);
  CHECK(speed.samples_per_s == 64);
  CHECK(speed.epoch_s == 50);
  CHECK(speed.run_s == 150);
  CHECK_FALSE(speed.utilization.has_value());
  CHECK_THAT(plan_text(plan, {}), Contains("64.0 samples/s, 678 GFLOP/s with 2 threads\n") &&
                                      Contains("without validation and data loading"));
  plan.model->device = "cuda:0";
  plan.model->device_name = "NVIDIA A100-SXM4-80GB";
  plan.model->precision = "bf16-mixed";
  plan.model->step_s = 0.005;
  CHECK(*speed_of(plan)->utilization == Approx(6400 * 10.6e9 / 312e12));
  CHECK_THAT(plan_text(plan, {}), Contains("22 % of the peak of NVIDIA A100-SXM4-80GB (MFU)"));
  plan.epochs.reset();
  plan.steps.reset();
  CHECK(plan_document(plan)["model"]["speed"]["run_s"].is_null());
}

TEST_CASE("plan --probe: shows the range of the speed over the rounds") {
  Plan plan = resnet();
  plan.model->step_s = 0.25;
  plan.model->step_rounds_s = {0.24, 0.25, 0.3};
  plan.model->measured_batches = {8, 16};
  const PlannedSpeed speed = *speed_of(plan);
  CHECK(speed.range.low_s == Approx(0.48));
  CHECK(speed.range.high_s == Approx(0.6));
  CHECK(speed.rounds == 3);
  CHECK_THAT(plan_text(plan, {}),
             Contains("0.50 s per step (0.48 s to 0.60 s in 3 measurements), "));
  const Json document = plan_document(plan)["model"]["speed"];
  CHECK(document["step_high_s"] == Approx(0.6));
  CHECK(document["rounds"] == 3);
}

TEST_CASE("plan: the duration of a run depends on its batches and on max_steps") {
  Plan plan = resnet();
  plan.model->step_s = 0.5;
  plan.batches_per_epoch = 10;  // steps have 4 batches, and the last one has 2
  plan.steps_per_epoch = 3;
  plan.epochs = 2;
  plan.steps = 6;
  CHECK(speed_of(plan)->epoch_s == 5);
  CHECK(speed_of(plan)->run_s == 10);
  CHECK_THAT(plan_text(plan, {}), Contains(" for 2 epochs, without validation"));
  plan.steps = 4;  // max_steps gives such a plan
  CHECK(*speed_of(plan)->run_s == Approx(5.0 * 4 / 3));
  CHECK_THAT(plan_text(plan, {}), Contains(" for 4 steps, without validation"));
  plan.steps_per_epoch = 0;
  CHECK_FALSE(speed_of(plan)->run_s.has_value());
}

TEST_CASE("plan: activation checkpointing shows HFU instead of MFU") {
  Plan plan = resnet();
  plan.model->device = "cuda:0";
  plan.model->device_name = "NVIDIA A100-SXM4-80GB";
  plan.model->precision = "bf16-mixed";
  plan.model->step_s = 0.005;
  plan.recomputes = true;
  CHECK_THAT(plan_text(plan, {}), Contains("(HFU)") && !Contains("(MFU)"));
  const Json speed = plan_document(plan)["model"]["speed"];
  CHECK(speed["mfu"].is_null());
  CHECK(speed["hfu"] == Approx(6400 * 10.6e9 / 312e12));
}

TEST_CASE("plan: step times of a smaller batch are scaled to the run's batch size") {
  Plan plan = resnet();
  plan.model->measured_batches = {4, 8};
  plan.model->step_s = 0.25;
  CHECK(speed_of(plan)->samples_per_s == 32);
  CHECK(speed_of(plan)->step_s == 1.0);
}

TEST_CASE("plan: without a model, the reason is shown") {
  Plan plan = resnet();
  plan.model.reset();
  plan.no_model = "this build has no engine";
  CHECK_THAT(plan_text(plan, {}), Contains("not measured: this build has no engine") &&
                                      Contains("not included: the model"));
  CHECK(plan_document(plan)["model"].is_null());
  CHECK(plan_document(plan)["no_model"] == "this build has no engine");
}
