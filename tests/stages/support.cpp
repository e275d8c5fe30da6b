#include "stages/support.hpp"

#include "stages/builtin.hpp"
#include "support/catch.hpp"
#include "support/close.hpp"
#include "support/golden_folder.hpp"
#include "support/stage.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>

#include <fstream>

using namespace trainctl;

namespace stages_test {
namespace {

void flatten(const Json& numbers, std::size_t depth, std::vector<std::int64_t>& shape,
             std::vector<double>& values) {
  if (numbers.is_number()) {
    values.push_back(numbers.get<double>());
    return;
  }
  if (shape.size() == depth) shape.push_back(static_cast<std::int64_t>(numbers.size()));
  for (const Json& item : numbers) flatten(item, depth + 1, shape, values);
}

}  // namespace

config::Stage stage(const std::string& kind, const std::string& type, const std::string& options) {
  return stage_from(kind, type, options);
}

std::unique_ptr<stage::Model> make_model(const std::string& type, const std::string& options,
                                         const stage::ModelContext& context) {
  return stages::builtin_catalog().models.build(stage("model", type, options), context);
}

Json golden(const std::string& name) {
  std::ifstream file(golden_folder() / ("torch/" + name + ".json"));
  return Json::parse(file);
}

at::Tensor tensor(const Json& numbers, at::ScalarType dtype) {
  std::vector<std::int64_t> shape;
  std::vector<double> values;
  flatten(numbers, 0, shape, values);
  return at::tensor(values, at::kDouble).view(shape).to(dtype);
}

std::vector<std::int64_t> shape_of(const Json& numbers) {
  return numbers.get<std::vector<std::int64_t>>();
}

at::Tensor ramp(std::vector<std::int64_t> shape) {
  std::int64_t count = 2;
  for (const std::int64_t size : shape) count *= size;
  shape.insert(shape.begin(), 2);
  return at::arange(count, at::kDouble).sin().to(at::kFloat).view(shape);
}

void check_names(const std::vector<stage::NamedTensor>& found, const Json& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO(expected[i]["name"]);
    CHECK(found[i].name == expected[i]["name"]);
    CHECK(found[i].tensor.sizes() == at::IntArrayRef(shape_of(expected[i]["shape"])));
    if (!expected[i].contains("first")) continue;
    const at::Tensor values = found[i].tensor.detach().flatten();
    CHECK(mismatch(values.slice(0, 0, 4), tensor(expected[i]["first"]),
                   share_of_largest(values, 1e-5)) == "");
  }
}

void check_gradients(const stage::Model& model, const Json& expected) {
  const auto parameters = model.parameters();
  REQUIRE(parameters.size() == expected.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    INFO(parameters[i].name);
    CHECK(expected[i]["name"] == parameters[i].name);
    const at::Tensor gradient = parameters[i].tensor.grad().to_dense().flatten();
    const auto norm = expected[i]["norm"].get<double>();
    CHECK(gradient.norm().item<double>() == Approx(norm).epsilon(1e-4).margin(1e-6));
    const at::Tensor first = tensor(expected[i]["first"]);
    CHECK(mismatch(gradient.narrow(0, 0, first.numel()), first, {1e-4, 1e-5 * (1 + norm)}) == "");
  }
}

void perturb(const stage::Model& model) {
  const at::NoGradGuard guard;
  double j = 0;
  for (const auto& [name, parameter] : model.parameters()) {
    at::Tensor steps = at::arange(parameter.numel(), at::kFloat);  // exact below 2^24
    parameter.add_(steps.add_(j++).sin_().div_(20).view(parameter.sizes()));
  }
}

}  // namespace stages_test
