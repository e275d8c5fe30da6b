#include "base/files.hpp"
#include "base/strings.hpp"
#include "engine/failure.hpp"
#include "engine/jobs/jobs.hpp"
#include "engine/resolve/step_probe.hpp"
#include "engine/setup/run_components.hpp"
#include "train/state/weights.hpp"

#include <ATen/ops/allclose.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/serialization/import.h>

#include <array>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::engine {
namespace {

namespace jit = torch::jit;

/// Throws for a model whose trace depends on more than its input.
[[noreturn]] void refuse(const std::string& cause) {
  throw Error(ErrorKind::config,
              fmt::format("cannot export the model as TorchScript: {}\nhint: export its weights as "
                          ".safetensors or .pth",
                          cause));
}

/// The modules of a script by their dotted names: "layer1.0" for "layer1.0.conv1.weight".
class ModuleTree {
 public:
  explicit ModuleTree(const stage::Model& model) {
    modules_.emplace("", make("__torch__.Model"));
    for (const auto& [name, tensor] : model.parameters()) add(name, tensor, /*is_buffer=*/false);
    for (const auto& [name, tensor] : model.buffers()) add(name, tensor, /*is_buffer=*/true);
  }

  jit::Module& root() { return modules_.at(""); }

 private:
  [[nodiscard]] jit::Module make(const char* name) const {
    jit::Module module(c10::QualifiedName(name), unit_, /*shouldMangle=*/true);
    // Python's `eval()` and `training` use this attribute.
    module.register_attribute("training", c10::BoolType::get(), /*v=*/false);
    return module;
  }

  jit::Module& module_called(const std::string& path) {
    const auto found = modules_.find(path);
    if (found != modules_.end()) return found->second;
    const std::size_t dot = path.rfind('.');
    jit::Module& parent = module_called(dot == std::string::npos ? "" : path.substr(0, dot));
    jit::Module child = make("__torch__.Layer");
    parent.register_module(dot == std::string::npos ? path : path.substr(dot + 1), child);
    return modules_.emplace(path, std::move(child)).first->second;
  }

  void add(const std::string& name, const at::Tensor& tensor, bool is_buffer) {
    const std::size_t dot = name.rfind('.');
    jit::Module& owner = module_called(dot == std::string::npos ? "" : name.substr(0, dot));
    const std::string own = dot == std::string::npos ? name : name.substr(dot + 1);
    if (is_buffer) {
      owner.register_buffer(own, tensor);
    } else {
      owner.register_parameter(own, tensor, /*is_buffer=*/false);
    }
  }

  std::shared_ptr<jit::CompilationUnit> unit_ = std::make_shared<jit::CompilationUnit>();
  std::map<std::string, jit::Module> modules_;
};

std::shared_ptr<jit::Graph> trace(stage::Model& model, jit::Module& script,
                                  const at::Tensor& inputs) {
  const auto forward = [&](const jit::Stack& stack) -> jit::Stack {
    return {model.forward(stack.front().toTensor())};
  };
  const auto no_name = [](const at::Tensor&) { return std::string(); };
  return jit::tracer::trace({inputs}, forward, no_name, /*strict=*/true, /*force_outplace=*/false,
                            &script, {"input"})
      .first->graph;
}

void collect(jit::Block* block, std::vector<jit::Node*>& nodes) {
  for (jit::Node* node : block->nodes()) {
    nodes.push_back(node);
    for (jit::Block* inner : node->blocks()) collect(inner, nodes);
  }
}

struct Trace {
  std::int64_t rows = 0;
  std::shared_ptr<jit::Graph> graph;

  [[nodiscard]] std::vector<jit::Node*> nodes() const {
    std::vector<jit::Node*> all;
    collect(graph->block(), all);
    return all;
  }
};

jit::Value* batch_size_in(jit::Graph& graph, jit::Value* input) {
  const jit::WithInsertPoint at(*graph.nodes().begin());
  jit::Value* dimension = graph.insertConstant(0);
  return graph.insert(c10::Symbol::fromQualString("aten::size"), {input, dimension});
}

/// Replaces constants in a trace that are multiples of its number of rows by the same multiples of
/// the batch size. A second trace with another number of rows identifies these constants.
void follow_batch_size(const Trace& trace, const Trace& other) {
  const std::vector<jit::Node*> nodes = trace.nodes();
  const std::vector<jit::Node*> others = other.nodes();
  if (nodes.size() != others.size()) refuse("the operations depend on the batch size");
  jit::Value* batch_size = nullptr;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i]->kind() != others[i]->kind()) refuse("the operations depend on the batch size");
    if (nodes[i]->kind() != c10::prim::Constant) continue;
    const c10::optional<c10::IValue> value = jit::toIValue(nodes[i]->output());
    const c10::optional<c10::IValue> in_other = jit::toIValue(others[i]->output());
    if (!value || !in_other || !value->isInt() || !in_other->isInt()) continue;
    const std::int64_t number = value->toInt();
    if (number == in_other->toInt()) continue;
    const std::int64_t multiple = number / trace.rows;
    if (multiple * trace.rows != number || multiple * other.rows != in_other->toInt())
      refuse("a size depends on the batch size, but is not a multiple of it");
    jit::Graph& graph = *trace.graph;
    if (batch_size == nullptr) batch_size = batch_size_in(graph, graph.inputs().back());
    const jit::WithInsertPoint at(nodes[i]);
    jit::Value* follows = multiple == 1
                              ? batch_size
                              : graph.insert(c10::Symbol::fromQualString("aten::mul"),
                                             {batch_size, graph.insertConstant(multiple)});
    nodes[i]->output()->replaceAllUsesWith(follows);
  }
}

/// Compares the outputs for batch sizes that were not traced.
void check_script(stage::Model& model, const stage::ModelContext& shape, jit::Module script) {
  for (const std::int64_t rows : {1, 2, 5}) {
    const at::Tensor inputs = made_up_batch(shape, rows, at::kCPU).inputs;
    const at::Tensor expected = model.forward(inputs);
    const at::Tensor found = script.forward({inputs}).toTensor();
    if (found.sizes() != expected.sizes() ||
        !at::allclose(found, expected, /*rtol=*/1e-4, /*atol=*/1e-5, /*equal_nan=*/true))
      refuse(fmt::format(
          "for batch size {} the exported program computes other outputs than the model", rows));
  }
}

void write_script(stage::Model& model, const stage::ModelContext& shape,
                  const std::filesystem::path& path) {
  constexpr std::array<std::int64_t, 2> kRows{3, 4};
  const at::NoGradGuard guard;
  model.set_mode(stage::RunMode::evaluate);
  std::ostringstream bytes;
  try {
    ModuleTree tree(model);
    std::vector<Trace> traces;
    for (const std::int64_t rows : kRows) {
      const at::Tensor inputs = made_up_batch(shape, rows, at::kCPU).inputs;
      traces.push_back({rows, trace(model, tree.root(), inputs)});
    }
    follow_batch_size(traces[0], traces[1]);
    jit::Module& script = tree.root();
    const c10::QualifiedName name(*script.type()->name(), "forward");
    script.type()->addMethod(
        script._ivalue()->compilation_unit()->create_function(name, traces[0].graph));
    script.eval();
    script.save(bytes);
    std::istringstream written(bytes.str());
    check_script(model, shape, jit::load(written, at::kCPU));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    refuse(cause_of(error));
  }
  write_atomically(path, bytes.str());
}

}  // namespace

int export_script(const JobSetup& setup) {
  const std::filesystem::path run_dir = setup.request.run_dir;
  const spec::Job job = spec::read_job(run_dir);
  const stage::ModelContext shape = model_context(setup.experiment, job);
  at::manual_seed(setup.experiment.seed);
  const stage::Catalog catalog = catalog_in_use();
  const auto model = catalog.models.build(setup.experiment.model, shape);
  model->to(at::kCPU);
  events::WeightsSet loaded;
  train::load_weights(*model, job.weights, {.whole = true}, loaded);
  write_script(*model, shape, run_dir / spec::kScriptFile);
  setup.emit(events::Finished{0, 0, {}, {}, "exported"});
  return 0;
}

}  // namespace trainctl::engine
