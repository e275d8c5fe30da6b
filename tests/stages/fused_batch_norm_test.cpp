#include "stages/model/blocks/fused_batch_norm.hpp"

#include "device/device.hpp"
#include "device/kernels.hpp"
#include "stage/checkpoint.hpp"
#include "stage/forward_context.hpp"
#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"
#include "support/close.hpp"

#include <ATen/Context.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace trainctl;
using stages::BatchNorm2d;

// Tests the CPU implementation, which shares the arithmetic of the kernels; the cases [gpu] compare
// the kernels with it.

namespace {

constexpr auto kPixels = at::MemoryFormat::ChannelsLast;
constexpr auto kTrain = stage::RunMode::train;
constexpr auto kEvaluate = stage::RunMode::evaluate;
const std::vector<at::ScalarType> kPixelTypes{at::kFloat, at::kBFloat16, at::kHalf};

/// What a layer computes from.
struct NormCase {
  at::Tensor x, residual, weight, bias, y_grad;
  bool relu = true;
};

constexpr double kEps = 1e-3;

/// Sets the gradient of values around 0 to 0, because rounding decides whether relu hides them.
void clear_near_zero(const NormCase& values) {
  const auto wide = [](const at::Tensor& x) { return x.to(at::kDouble); };
  at::Tensor y = at::batch_norm(wide(values.x), wide(values.weight), wide(values.bias), {}, {},
                                /*training=*/true, 0, kEps, /*cudnn_enabled=*/false);
  if (values.residual.defined()) y = y + values.residual;
  values.y_grad.masked_fill_(y.abs() < 1e-3, 0);
}

struct Shape {
  std::int64_t rows, channels, height, width;
};

/// Some channels are far from 0, where a plain sum of squares would lose precision.
NormCase make_case(const Shape& shape, at::ScalarType type, bool adds) {
  const std::vector<std::int64_t> sizes{shape.rows, shape.channels, shape.height, shape.width};
  const auto pixels = [&](const at::Tensor& x) { return x.to(type).contiguous(kPixels); };
  const at::Tensor shift = at::arange(shape.channels, at::kFloat).remainder(5).view({1, -1, 1, 1});
  const NormCase values{
      pixels(at::randn(sizes) * 2 + shift * 3), adds ? pixels(at::randn(sizes)) : at::Tensor(),
      at::rand({shape.channels}) - 0.3, at::randn({shape.channels}), pixels(at::randn(sizes))};
  clear_near_zero(values);
  return values;
}

BatchNorm2d make_layer(const NormCase& values, at::Device device,
                       at::ScalarType type = at::kFloat) {
  const auto copy = [&](const at::Tensor& x) { return x.to(device, type, false, true); };
  BatchNorm2d norm;
  norm.weight = copy(values.weight).requires_grad_();
  norm.bias = copy(values.bias).requires_grad_();
  norm.running_mean = at::zeros_like(norm.weight.detach());
  norm.running_var = at::ones_like(norm.weight.detach());
  norm.num_batches_tracked = at::zeros({}, norm.weight.options().dtype(at::kLong));
  norm.options = {.eps = kEps, .momentum = 0.2};
  return norm;
}

using Results = std::vector<at::Tensor>;

/// Returns y, the running averages and all gradients of a call in training, as float32 on the CPU.
template <class Call>
Results train_step(const NormCase& values, at::Device device, at::ScalarType type,
                   at::ScalarType layer_type, Call call) {
  const BatchNorm2d norm = make_layer(values, device, layer_type);
  const auto leaf = [&](const at::Tensor& x) {
    return x.defined() ? x.to(device, type, false, true).requires_grad_() : x;
  };
  const at::Tensor x = leaf(values.x), residual = leaf(values.residual);
  const at::Tensor y = call(norm, x, residual);
  y.backward(values.y_grad.to(device, y.scalar_type()));
  Results all{y.detach(), norm.running_mean,  norm.running_var,
              x.grad(),   norm.weight.grad(), norm.bias.grad()};
  if (residual.defined()) all.push_back(residual.grad());
  CHECK(norm.num_batches_tracked.item<std::int64_t>() == 1);
  for (at::Tensor& result : all) result = result.cpu().to(at::kFloat).contiguous();
  return all;
}

Results fused_step(const NormCase& values, at::Device device = at::kCPU) {
  return train_step(
      values, device, values.x.scalar_type(), at::kFloat,
      [&](const BatchNorm2d& norm, const at::Tensor& x, const at::Tensor& residual) {
        const at::Tensor y = stages::fused_batch_norm(norm, x, kTrain, {residual, values.relu});
        CHECK(y.is_contiguous(kPixels));
        CHECK(y.scalar_type() == x.scalar_type());
        return y;
      });
}

/// PyTorch's results in float64.
Results torch_step(const NormCase& values) {
  return train_step(values, at::kCPU, at::kDouble, at::kDouble,
                    [&](const BatchNorm2d& norm, const at::Tensor& x, const at::Tensor& residual) {
                      at::Tensor y = norm(x, kTrain);
                      if (residual.defined()) y = y + residual;
                      return values.relu ? at::relu(y) : y;
                    });
}

void check_results(const Results& found, const Results& expected, const Tolerance& tolerance) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO("tensor " << i);
    Tolerance allowed = share_of_largest(expected[i], tolerance.absolute);
    allowed.relative = tolerance.relative;
    CHECK(mismatch(found[i], expected[i], allowed) == "");
  }
}

/// Gradients near 0 are sums that cancel, so the absolute part is a share of the largest number.
Tolerance norm_tolerance(at::ScalarType type) {
  if (type == at::kFloat) return {.relative = 1e-5, .absolute = 5e-6};
  return {.relative = 1e-2, .absolute = 1e-2};
}

/// What follows the normalization.
struct Epilogue {
  bool adds;
  bool relu;
};
constexpr Epilogue kEpilogues[] = {{false, true}, {true, true}, {false, false}, {true, false}};

std::string text_of(const Shape& shape, at::ScalarType type, const Epilogue& epilogue) {
  return fmt::format("{} x {} x {} x {}, type {}, {} residual, {} relu", shape.rows, shape.channels,
                     shape.height, shape.width, c10::toString(type),
                     epilogue.adds ? "with" : "without", epilogue.relu ? "with" : "without");
}

bool has_norm_kernels() { return at::globalContext().hasCUDA() && device::kernels_built(); }

}  // namespace

TEST_CASE("fused_batch_norm: results, averages and gradients equal PyTorch's in float64") {
  at::manual_seed(1);
  // One pack of channels, fewer than a warp, numbers that are no power of two, several tiles.
  for (const Shape& shape : {Shape{5, 8, 1, 1},
                             {3, 8, 5, 5},
                             {4, 24, 3, 7},
                             {2, 64, 9, 8},
                             {2, 264, 4, 4},
                             {5, 520, 1, 2}}) {
    for (const at::ScalarType type : kPixelTypes) {
      for (const Epilogue& epilogue : kEpilogues) {
        INFO(text_of(shape, type, epilogue));
        NormCase values = make_case(shape, type, epilogue.adds);
        values.relu = epilogue.relu;
        const Results found = fused_step(values);
        const Results expected = torch_step(values);
        check_results(found, expected, norm_tolerance(type));
      }
    }
  }
}

TEST_CASE("fused_batch_norm: a batch has more rows than a grid takes at once") {
  at::manual_seed(13);
  const Shape shape{5, 8, 170, 170};
  const device::NormReluGrid grid = device::norm_relu_grid(5 * 170 * 170, 2);
  CHECK(grid.blocks * grid.rows < 5 * 170 * 170);
  for (const bool adds : {false, true}) {
    const NormCase values = make_case(shape, at::kFloat, adds);
    check_results(fused_step(values), torch_step(values), norm_tolerance(at::kFloat));
  }
}

TEST_CASE("batch_moments: outliers and a large mean do not cancel the variance") {
  at::manual_seed(2);
  NormCase values = make_case({8, 8, 140, 140}, at::kFloat, false);
  values.x = (values.x + 1000).contiguous(kPixels);
  values.x.select(1, 0).fill_(-7);  // a variance of 0
  for (const std::int64_t channel : {1, 2, 3}) values.x[0][channel][0][0] = 1e6F;
  values.x[7][4][139][139] = 1e6F;
  const BatchNorm2d norm = make_layer(values, at::kCPU);
  const BatchNorm2d exact = make_layer(values, at::kCPU, at::kDouble);
  stages::fused_batch_norm(norm, values.x, kTrain);
  CHECK(exact(values.x.to(at::kDouble), kTrain).defined());
  CHECK(mismatch(norm.running_mean, exact.running_mean.to(at::kFloat), {.relative = 1e-6}) == "");
  CHECK(mismatch(norm.running_var, exact.running_var.to(at::kFloat), {.relative = 1e-5}) == "");
}

TEST_CASE("fused_batch_norm: evaluation uses the running averages") {
  at::manual_seed(3);
  const at::NoGradGuard guard;
  for (const bool adds : {false, true}) {
    const NormCase values = make_case({3, 16, 4, 5}, at::kFloat, adds);
    const BatchNorm2d norm = make_layer(values, at::kCPU);
    norm.running_mean.copy_(at::randn({16}));
    norm.running_var.copy_(at::rand({16}) + 0.1);
    const at::Tensor found = stages::fused_batch_norm(norm, values.x, kEvaluate, {values.residual});
    const at::Tensor y = norm(values.x, kEvaluate);
    CHECK(mismatch(found, at::relu(adds ? y + values.residual : y)) == "");
    CHECK(mismatch(stages::fused_batch_norm(norm, values.x, kEvaluate, {.relu = false}), y) == "");
    CHECK(norm.num_batches_tracked.item<std::int64_t>() == 0);
  }
}

TEST_CASE("fused_batch_norm: a repeated forward pass does not update the averages") {
  at::manual_seed(4);
  const NormCase values = make_case({3, 8, 4, 4}, at::kFloat, false);
  const BatchNorm2d norm = make_layer(values, at::kCPU);
  const at::Tensor x = values.x.clone().requires_grad_();
  const at::Tensor y = stage::checkpoint(
      [&](const at::Tensor& in) { return stages::fused_batch_norm(norm, in, kTrain); }, x);
  const at::Tensor mean = norm.running_mean.clone();
  y.backward(values.y_grad);
  CHECK(norm.num_batches_tracked.item<std::int64_t>() == 1);
  CHECK(at::equal(norm.running_mean, mean));
  CHECK(mismatch(x.grad(), torch_step(values)[3]) == "");
}

TEST_CASE("fused_batch_norm: gradients in another memory format are accepted") {
  at::manual_seed(5);
  NormCase values = make_case({3, 8, 4, 4}, at::kFloat, true);
  values.y_grad = values.y_grad.contiguous();
  check_results(fused_step(values), torch_step(values), norm_tolerance(at::kFloat));
  values.y_grad = at::ones({1, 8, 1, 1}).expand({3, 8, 4, 4});
  check_results(fused_step(values), torch_step(values), norm_tolerance(at::kFloat));
}

TEST_CASE("fused_batch_norm: an input without gradient gives those of the layer only") {
  at::manual_seed(6);
  const NormCase values = make_case({3, 8, 4, 4}, at::kFloat, false);
  const BatchNorm2d norm = make_layer(values, at::kCPU);
  stages::fused_batch_norm(norm, values.x, kTrain).backward(values.y_grad);
  const Results expected = torch_step(values);
  CHECK(mismatch(norm.weight.grad(), expected[4]) == "");
  CHECK(mismatch(norm.bias.grad(), expected[5]) == "");
}

TEST_CASE("batch norm: a frozen weight leaves the statistics of the batch in use") {
  at::manual_seed(14);
  const NormCase values = make_case({3, 8, 4, 4}, at::kFloat, false);
  const Results expected = torch_step(values);
  for (const bool fuses : {false, true}) {
    const BatchNorm2d norm = make_layer(values, at::kCPU);
    norm.weight.set_requires_grad(false);
    const at::Tensor y = fuses ? stages::fused_batch_norm(norm, values.x, kTrain)
                               : stages::batch_norm_relu(norm, values.x, kTrain);
    y.backward(values.y_grad);
    CHECK(mismatch(y.detach().contiguous(), expected[0]) == "");
    CHECK(mismatch(norm.running_mean, expected[1]) == "");
    CHECK(mismatch(norm.bias.grad(), expected[5]) == "");
    CHECK_FALSE(norm.weight.grad().defined());
    norm.bias.set_requires_grad(false);
    CHECK_FALSE(norm.trains(kTrain));
  }
}

TEST_CASE("fused_batch_norm: NaN and infinity are not hidden by relu") {
  at::manual_seed(7);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    NormCase values = make_case({2, 8, 3, 3}, at::kFloat, true);
    values.x[0][0][0][0] = bad;
    values.residual[0][1][0][0] = bad;
    const Results found = fused_step(values);
    CHECK(found[0].select(1, 0).isnan().all().item<bool>());
    CHECK_FALSE(found[0][0][1][0][0].isfinite().item<bool>());
    CHECK(found[3].select(1, 0).isnan().all().item<bool>());
    CHECK(found[0].narrow(1, 2, 6).isfinite().all().item<bool>());
  }
}

TEST_CASE("fused_batch_norm: one value per channel is an error, and so is a second derivative") {
  at::manual_seed(8);
  const NormCase one = make_case({1, 8, 1, 1}, at::kFloat, false);
  CHECK_THROWS_WITH(stages::fused_batch_norm(make_layer(one, at::kCPU), one.x, kTrain),
                    Contains("more than one value per channel"));
  const NormCase values = make_case({2, 8, 2, 2}, at::kFloat, false);
  const at::Tensor x = values.x.clone().requires_grad_();
  const at::Tensor y = stages::fused_batch_norm(make_layer(values, at::kCPU), x, kTrain);
  CHECK_THROWS_WITH(torch::autograd::grad({y.sum()}, {x}, {}, true, /*create_graph=*/true),
                    Contains("no second derivative"));
}

TEST_CASE("batch norm: a CPU uses PyTorch's operators, with bitwise equal results") {
  at::manual_seed(9);
  for (const bool adds : {false, true}) {
    const NormCase values = make_case({3, 16, 5, 4}, at::kFloat, adds);
    const auto step = [&](bool plain) {
      return train_step(
          values, at::kCPU, at::kFloat, at::kFloat,
          [&](const BatchNorm2d& norm, const at::Tensor& x, const at::Tensor& residual) {
            CHECK_FALSE(stages::fuses_batch_norm(norm, x, kTrain));
            if (!plain) return stages::batch_norm_relu(norm, x, kTrain, residual);
            const at::Tensor y = norm(x, kTrain);
            return at::relu(adds ? y + residual : y);
          });
    };
    const Results found = step(false), expected = step(true);
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(at::equal(found[i], expected[i]));
    CHECK(at::equal(stages::batch_norm(make_layer(values, at::kCPU), values.x, kTrain),
                    make_layer(values, at::kCPU)(values.x, kTrain)));
  }
}

TEST_CASE("traffic: batch norm and relu read y and write a gradient only with a residual") {
  float number = 0;
  device::BatchNormReluBackward job;
  job.type = device::Element::bfloat16;
  job.rows = 100;
  job.channels = 16;
  const std::int64_t parts = device::parts_of(job) * 2 * 16 * 4 * 2;
  CHECK(device::parts_of(job) == 1);
  device::BatchMoments moments;
  static_cast<device::PixelRows&>(moments) = job;
  CHECK(device::traffic(moments) == 100 * 16 * 2 + 3 * 16 * 4 * 2);
  CHECK(device::traffic(static_cast<const device::BatchNormRelu&>(job)) == 100 * 16 * 4);
  CHECK(device::traffic(job) == 100 * 16 * 4 + parts);
  job.x_grad = &number;
  CHECK(device::traffic(job) == 100 * 16 * 10 + parts);
  job.residual = job.residual_grad = &number;
  CHECK(device::traffic(static_cast<const device::BatchNormRelu&>(job)) == 100 * 16 * 6);
  CHECK(device::traffic(job) == 100 * 16 * 14 + parts);
}

TEST_CASE("norm_relu_grid: covers all channels and rows with blocks of 256 threads") {
  for (const std::int64_t packs : {1, 2, 3, 8, 31, 32, 33, 256}) {
    for (const std::int64_t rows : {1, 7, 8, 300, 100'000, 10'000'000}) {
      INFO(packs << " packs, " << rows << " rows");
      const device::NormReluGrid grid = device::norm_relu_grid(rows, packs);
      CHECK(grid.lanes * grid.rows == device::kNormReluThreads);
      CHECK(grid.tiles * grid.lanes >= packs);
      CHECK((grid.tiles - 1) * grid.lanes < packs);
      CHECK(grid.blocks >= 1);
      CHECK((grid.blocks - 1) * grid.rows < rows);
    }
  }
}

TEST_CASE("fused_batch_norm: without a CUDA compiler the kernels report why they are missing") {
  if (device::kernels_built()) skip("this build has kernels");
  CHECK_THAT(device::launch_batch_moments({}, nullptr), Contains("no CUDA compiler was found"));
  CHECK_THAT(device::launch_batch_norm_relu({}, nullptr), Contains("no CUDA compiler was found"));
  CHECK_THAT(device::launch_batch_norm_relu_backward({}, nullptr), Contains("no CUDA compiler"));
}

TEST_CASE("fused_batch_norm: the GPU kernels match the CPU and are deterministic",
          "[gpu][kernels]") {
  if (!has_norm_kernels()) skip("no GPU, or no kernels");
  at::manual_seed(10);
  for (const Shape& shape : {Shape{5, 8, 1, 1},
                             {3, 8, 5, 5},
                             {4, 24, 3, 7},
                             {2, 264, 4, 4},
                             {5, 2048, 7, 7},
                             {16, 64, 56, 56}}) {
    for (const at::ScalarType type : kPixelTypes) {
      for (const Epilogue& epilogue : kEpilogues) {
        INFO(text_of(shape, type, epilogue));
        NormCase values = make_case(shape, type, epilogue.adds);
        values.relu = epilogue.relu;
        const Results found = fused_step(values, at::kCUDA);
        Tolerance tolerance = norm_tolerance(type);
        if (type == at::kFloat) tolerance = {.relative = 1e-4, .absolute = 1e-4};
        check_results(found, fused_step(values), tolerance);
        const Results again = fused_step(values, at::kCUDA);
        for (std::size_t i = 0; i < found.size(); ++i) CHECK(at::equal(found[i], again[i]));
      }
    }
  }
}

// Without [kernels]: the sanitizer's cases allocate memory directly, which a capture refuses.
TEST_CASE("fused_batch_norm: a CUDA graph repeats a step and its update of the averages", "[gpu]") {
  if (!has_norm_kernels()) skip("no GPU, or no fused kernels");
  at::manual_seed(12);
  const NormCase values = make_case({4, 64, 14, 14}, at::kBFloat16, true);
  const auto train = [&](int captured) {
    const BatchNorm2d norm = make_layer(values, at::kCUDA);
    const at::Tensor x = values.x.cuda().requires_grad_();
    const at::Tensor residual = values.residual.cuda().requires_grad_();
    const at::Tensor y_grad = values.y_grad.cuda();
    const auto step = [&] {
      for (const at::Tensor& leaf : {x, residual, norm.weight, norm.bias})
        leaf.mutable_grad().reset();
      stages::fused_batch_norm(norm, x, kTrain, {residual}).backward(y_grad);
    };
    const auto graph = device::make_step_graph(at::Device(at::kCUDA, 0));
    for (int i = 0; i < 5 - captured; ++i) graph->warm_up(step);
    const std::size_t recorded = captured > 0 ? graph->record(step) : 0;
    for (int i = 0; i < captured; ++i) graph->replay(recorded);
    CHECK(norm.num_batches_tracked.item<std::int64_t>() == 5);
    Results all{norm.running_mean, norm.running_var,   x.grad(),
                residual.grad(),   norm.weight.grad(), norm.bias.grad()};
    for (at::Tensor& result : all) result = result.cpu();
    return all;
  };
  const Results eager = train(0), replayed = train(3);
  for (std::size_t i = 0; i < eager.size(); ++i) CHECK(at::equal(replayed[i], eager[i]));
}

TEST_CASE("batch_norm_relu: a GPU fuses images in channels_last, except where it must not",
          "[gpu][kernels]") {
  if (!has_norm_kernels()) skip("no GPU, or no kernels");
  const NormCase values = make_case({2, 16, 4, 4}, at::kFloat, true);
  const BatchNorm2d norm = make_layer(values, at::kCUDA);
  const at::Tensor x = values.x.cuda();
  const at::Tensor residual = values.residual.cuda();
  CHECK(stages::fuses_batch_norm(norm, x, kTrain, residual));
  CHECK(stages::fuses_batch_norm(norm, x.to(at::kHalf), kTrain));
  CHECK_FALSE(stages::fuses_batch_norm(norm, x.contiguous(), kTrain));
  CHECK_FALSE(stages::fuses_batch_norm(norm, x.to(at::kDouble), kTrain));
  CHECK_FALSE(stages::fuses_batch_norm(norm, x, kTrain, residual.contiguous()));
  CHECK_FALSE(stages::fuses_batch_norm(norm, x, kTrain, residual.to(at::kHalf)));
  CHECK_FALSE(stages::fuses_batch_norm(norm, x.narrow(1, 0, 6).contiguous(kPixels), kTrain));
  CHECK_FALSE(stages::fuses_batch_norm(norm, x, kEvaluate));  // the bias needs a gradient
  {
    const at::NoGradGuard guard;
    CHECK(stages::fuses_batch_norm(norm, x, kEvaluate, residual));
  }
  norm.weight.set_requires_grad(false);
  norm.bias.set_requires_grad(false);
  CHECK(stages::fuses_batch_norm(norm, x, kTrain));
  residual.set_requires_grad(true);
  CHECK_FALSE(stages::fuses_batch_norm(norm, x, kTrain, residual));
  norm.weight.set_requires_grad(true);
  class Sum final : public stage::RankSum {
   public:
    void add(const at::Tensor& /*tensor*/) override {}
  } sum;
  const stage::BatchOfRanksScope ranks({&sum, true});
  CHECK_FALSE(stages::fuses_batch_norm(norm, x, kTrain, residual));
}

TEST_CASE("resnets: a GPU with fused kernels gives the logits and gradients of the CPU",
          "[gpu][kernels]") {
  if (!has_norm_kernels()) skip("no GPU, or no kernels");
  at::globalContext().setAllowTF32CuDNN(false);
  const std::string layers =
      "{layers: [{type: conv2d, out_channels: 8, kernel_size: 3}, batch_norm2d, relu, "
      "adaptive_avg_pool2d, flatten, linear]}";
  for (const auto& [type, options] : {std::pair<std::string, std::string>{"resnet18", "{}"},
                                      {"resnet_cifar", "{depth: 8}"},
                                      {"sequential", layers}}) {
    INFO(type);
    const auto gradients = [&, &type = type, &options = options](at::Device device) {
      at::manual_seed(11);
      const auto model = stages::builtin_catalog().models.build(
          stages_test::stage("model", type, options), {{3, 32, 32}, 10});
      const at::Tensor inputs = at::randn({8, 3, 32, 32});
      model->to(device);
      const at::Tensor logits = model->forward(inputs.to(device).contiguous(kPixels));
      logits.log_softmax(-1).select(-1, 0).sum().backward();
      Results all{logits.detach()};
      for (const auto& [name, parameter] : model->parameters()) all.push_back(parameter.grad());
      for (const auto& [name, buffer] : model->buffers()) all.push_back(buffer.to(at::kFloat));
      model->set_mode(kEvaluate);
      const at::NoGradGuard guard;
      all.push_back(model->forward(inputs.to(device).contiguous(kPixels)));
      return all;
    };
    const Results expected = gradients(at::kCPU);
    const Results found = gradients(at::kCUDA);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO("tensor " << i);
      CHECK(mismatch(found[i].cpu().contiguous(), expected[i].contiguous(),
                     share_of_largest(expected[i], 2e-2)) == "");
    }
  }
}
