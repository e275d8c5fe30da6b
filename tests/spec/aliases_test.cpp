#include "config/schema/explain.hpp"
#include "config/schema/reader.hpp"
#include "config/wording.hpp"
#include "experiment_yaml.hpp"
#include "spec/experiment/experiment.hpp"
#include "spec/load.hpp"
#include "support/catch.hpp"

#include <string>

using namespace trainctl;

TEST_CASE("aliases: every hint names an existing key") {
  const config::Schema& schema = *config::Codec<spec::Experiment>::schema();
  for (const config::Alias& alias : config::aliases()) {
    INFO(alias.word << " -> " << alias.key);
    const bool has_no_key = alias.key.empty() || alias.key == "type" || alias.key == "extends";
    if (!has_no_key)
      CHECK_NOTHROW(config::explain(std::string(alias.key), schema, spec::builtin_vocabulary()));
  }
}

TEST_CASE("explain: the example of every stage can be merged into an experiment", "[spec]") {
  const config::Vocabulary& vocabulary = spec::builtin_vocabulary();
  for (const std::string& kind : vocabulary.kinds()) {
    for (const std::string& name : vocabulary.names(kind)) {
      const std::string example =
          config::explain(kind + "." + name, spec::experiment_schema(), vocabulary).example;
      CAPTURE(kind, name, example);
      config::Diagnostics diagnostics;
      const auto overlay = config::finish_tree(
          config::load_text("example.yaml", example, diagnostics), {}, diagnostics);
      const auto merged =
          config::merge(config::finish_tree(config::load_text("base.yaml", kValidYaml, diagnostics),
                                            {}, diagnostics),
                        overlay);
      spec::Experiment experiment;
      config::Reader(vocabulary, diagnostics)
          .object(merged, spec::experiment_schema(), "it", &experiment);
      CHECK(diagnostics.render().empty());
    }
  }
}

TEST_CASE("explain: the example of every option is valid", "[spec]") {
  const config::Vocabulary& vocabulary = spec::builtin_vocabulary();
  for (const std::string& kind : vocabulary.kinds()) {
    for (const std::string& name : vocabulary.names(kind)) {
      const config::StageType& stage = *vocabulary.find(kind, name);
      for (const config::Field& field : stage.schema.fields) {
        const std::string key = kind + "." + name + "." + field.key;
        const std::string example =
            config::explain(key, spec::experiment_schema(), vocabulary).example;
        CAPTURE(key, example);
        if (example.empty()) continue;
        config::Diagnostics diagnostics;
        const config::Node tree = config::finish_tree(
            config::load_text("example.yaml", example, diagnostics), {}, diagnostics);
        config::Reader reader(vocabulary, diagnostics);
        const std::shared_ptr<void> options = stage.schema.make_default();
        if (const config::Node* value = tree.find(field.key))
          field.read(reader, *value, field, options.get());
        CHECK(diagnostics.render().empty());
      }
    }
  }
}
