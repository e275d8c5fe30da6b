#include "base/files.hpp"
#include "base/hash.hpp"
#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"
#include "support/close.hpp"
#include "support/golden_folder.hpp"
#include "support/temp_folder.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/jit/api/module.h>

#include <cctype>
#include <fstream>

using namespace trainctl;
using stages_test::tensor;

namespace {

const std::string kScript = golden_folder() / "torch/script.pt";

std::unique_ptr<stage::Model> load(const std::string& path, const std::string& sha256,
                                   const stage::ModelContext& context) {
  const std::string options = "{path: " + path + ", sha256: \"" + sha256 + "\"}";
  return stages::builtin_catalog().models.build(stages_test::stage("model", "torchscript", options),
                                                context);
}

std::string hash_of(const std::string& path) {
  return to_hex(sha256(read_file(path, 1 << 24, ReadFailure::data)));
}

/// Returns a saved module whose forward is `body`, with one parameter w of two elements.
std::unique_ptr<stage::Model> scripted(const TempFolder& folder, const std::string& body,
                                       const std::string& returns = "Tensor") {
  torch::jit::Module module("Net");
  module.register_parameter("w", at::ones({2}).requires_grad_(true), /*is_buffer=*/false);
  module.define("def forward(self, x: Tensor) -> " + returns + ":\n    " + body + "\n");
  const std::string path = (folder / "net.pt").string();
  module.save(path);
  return load(path, hash_of(path), {{3}, 2, {spec::Inputs::numbers, spec::Targets::classes}});
}

}  // namespace

TEST_CASE("torchscript: parameter names and logits equal PyTorch's") {
  const Json golden = stages_test::golden("transformers")["script"];
  const auto model = load(kScript, golden["sha256"], {{1, 28, 28}, 10});
  const auto parameters = model->parameters();
  REQUIRE(parameters.size() == golden["parameters"].size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    CHECK(parameters[i].name == golden["parameters"][i]["name"]);
    CHECK(parameters[i].tensor.requires_grad() == golden["parameters"][i]["trained"]);
  }
  REQUIRE(model->buffers().size() == golden["buffers"].size());
  CHECK(model->buffers()[0].name == golden["buffers"][0]["name"]);
  model->set_mode(stage::RunMode::evaluate);
  const at::NoGradGuard guard;
  const at::Tensor x = at::arange(2 * 784, at::kDouble).sin().to(at::kFloat).view({2, 1, 28, 28});
  CHECK(mismatch(model->forward(x), tensor(golden["logits"])) == "");
}

TEST_CASE("torchscript: a module trains, and its dropout is off in evaluation") {
  const Json golden = stages_test::golden("transformers")["script"];
  const auto model = load(kScript, golden["sha256"], {{1, 28, 28}, 10});
  at::manual_seed(5);
  const at::Tensor x = at::randn({8, 1, 28, 28});
  const at::Tensor targets = at::arange(8);
  const auto loss = [&] { return at::cross_entropy_loss(model->forward(x), targets); };
  const double before = loss().item<double>();
  for (int step = 0; step < 60; ++step) {
    for (const auto& [name, parameter] : model->parameters()) parameter.mutable_grad().reset();
    loss().backward();
    const at::NoGradGuard guard;
    for (const auto& [name, parameter] : model->parameters()) {
      if (parameter.requires_grad()) parameter.sub_(parameter.grad(), 0.5);
    }
  }
  CHECK(loss().item<double>() < before - 0.2);
  CHECK_FALSE(model->forward(x).equal(model->forward(x)));
  model->set_mode(stage::RunMode::evaluate);
  CHECK(model->forward(x).equal(model->forward(x)));
}

TEST_CASE("torchscript: a module that has been trained is evaluated in inference mode") {
  const TempFolder folder;
  const auto model = scripted(folder, "return torch.relu(x[:, :2] * self.w) * self.w + self.w");
  for (int step = 0; step < 4; ++step) model->forward(at::randn({5, 3})).sum().backward();
  model->set_mode(stage::RunMode::evaluate);
  const at::Tensor x = at::randn({5, 3});
  const at::Tensor expected = model->forward(x).detach();
  for (int batch = 0; batch < 3; ++batch) {
    const c10::InferenceMode inference;
    CHECK(model->forward(x).equal(expected));
    CHECK(model->forward(x.clone()).equal(expected));
  }
  model->set_mode(stage::RunMode::train);
  CHECK(model->forward(x).requires_grad());
}

TEST_CASE("torchscript: another SHA-256 or a missing file is an error") {
  const std::string hash = hash_of(kScript);
  const std::string other(64, '0');
  CHECK_THROWS_WITH(load(kScript, other, {{1, 28, 28}, 10}),
                    Contains("has the SHA-256 " + hash + ", but 'sha256' is " + other));
  std::string upper = hash;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  CHECK_NOTHROW(load(kScript, upper, {{1, 28, 28}, 10}));
  CHECK_THROWS_WITH(load("missing.pt", hash, {{1, 28, 28}, 10}), Contains("cannot read"));
}

TEST_CASE("torchscript: a file that is not a TorchScript module is an error") {
  const TempFolder folder;
  const std::string path = (folder / "half.pt").string();
  const std::string whole = read_file(kScript, 1 << 24, ReadFailure::data);
  for (const std::string& bytes :
       {whole.substr(0, whole.size() / 2), std::string("not an archive"), std::string()}) {
    std::ofstream(path, std::ios::binary) << bytes;
    CHECK_THROWS_WITH(load(path, hash_of(path), {{1, 28, 28}, 10}),
                      Contains("half.pt is not a module written by torch.jit.save: "));
  }
}

TEST_CASE("torchscript: an output of the wrong type or shape is an error") {
  const TempFolder folder;
  const at::Tensor x = at::randn({4, 3});
  const auto message = [&](const std::string& body, const std::string& returns = "Tensor") {
    const auto model = scripted(folder, body, returns);
    try {
      model->forward(x);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::config);
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(message("return x[:, :2] * self.w").empty());
  CHECK_THAT(message("return x"),
             Contains("returns Float of the shape 4x3, but the data requires float logits of "
                      "the shape 4x2"));
  CHECK_THAT(message("return (x[:, :2] * self.w).argmax(1)"),
             Contains("returns Long of the shape 4"));
  CHECK_THAT(message("return (x, self.w)", "Tuple[Tensor, Tensor]"), Contains("got Tuple"));
  CHECK_THAT(message("return x * self.w"),
             Contains("does not take inputs of the shape 4x3: ") && Contains("must match"));
}

TEST_CASE("torchscript: a module without parameters is an error") {
  const TempFolder folder;
  torch::jit::Module module("Net");
  module.define("def forward(self, x: Tensor) -> Tensor:\n    return x\n");
  const std::string path = (folder / "net.pt").string();
  module.save(path);
  CHECK_THROWS_WITH(load(path, hash_of(path), {{1, 28, 28}, 10}),
                    Contains("has no parameters to train"));
}
