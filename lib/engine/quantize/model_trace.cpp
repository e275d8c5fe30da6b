#include "engine/quantize/model_trace.hpp"

#include "base/error.hpp"
#include "engine/resolve/step_probe.hpp"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <array>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

namespace trainctl::engine {
namespace {

namespace jit = torch::jit;

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
                                  const at::Tensor& inputs, InPlace in_place) {
  const auto forward = [&](const jit::Stack& stack) -> jit::Stack {
    return {model.forward(stack.front().toTensor())};
  };
  const auto no_name = [](const at::Tensor&) { return std::string(); };
  return jit::tracer::trace({inputs}, forward, no_name, /*strict=*/true,
                            /*force_outplace=*/in_place == InPlace::replaced, &script, {"input"})
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
  if (nodes.size() != others.size()) refuse_script("the operations depend on the batch size");
  jit::Value* batch_size = nullptr;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i]->kind() != others[i]->kind())
      refuse_script("the operations depend on the batch size");
    if (nodes[i]->kind() != c10::prim::Constant) continue;
    const c10::optional<c10::IValue> value = jit::toIValue(nodes[i]->output());
    const c10::optional<c10::IValue> in_other = jit::toIValue(others[i]->output());
    if (!value || !in_other || !value->isInt() || !in_other->isInt()) continue;
    const std::int64_t number = value->toInt();
    if (number == in_other->toInt()) continue;
    const std::int64_t multiple = number / trace.rows;
    if (multiple * trace.rows != number || multiple * other.rows != in_other->toInt())
      refuse_script("a size depends on the batch size, but is not a multiple of it");
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

}  // namespace

void refuse_script(const std::string& cause) {
  throw Error(ErrorKind::config,
              fmt::format("cannot export the model as TorchScript: {}\nhint: export its weights as "
                          ".safetensors or .pth",
                          cause));
}

TracedModel trace_model(stage::Model& model, const stage::ModelContext& shape, InPlace in_place) {
  constexpr std::array<std::int64_t, 2> kRows{3, 4};
  const at::NoGradGuard guard;
  model.set_mode(stage::RunMode::evaluate);
  ModuleTree tree(model);
  std::vector<Trace> traces;
  for (const std::int64_t rows : kRows) {
    const at::Tensor inputs = made_up_batch(shape, rows, at::kCPU).inputs;
    traces.push_back({rows, trace(model, tree.root(), inputs, in_place)});
  }
  follow_batch_size(traces[0], traces[1]);
  return {tree.root(), traces[0].graph};
}

std::string script_of(const TracedModel& traced) {
  jit::Module script = traced.module;
  const c10::QualifiedName name(*script.type()->name(), "forward");
  script.type()->addMethod(
      script._ivalue()->compilation_unit()->create_function(name, traced.graph));
  script.eval();
  std::ostringstream bytes;
  script.save(bytes);
  return bytes.str();
}

}  // namespace trainctl::engine
