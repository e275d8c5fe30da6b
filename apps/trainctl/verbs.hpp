#pragma once

namespace CLI {
class App;
}

namespace trainctl::app {

struct Context;

// One function a verb, each in the source of the verb's name; main.cpp lists them in the order of
// --help.
void add_run(CLI::App& program, Context& context);
void add_eval(CLI::App& program, Context& context);
void add_predict(CLI::App& program, Context& context);
void add_worker(CLI::App& program, Context& context);
void add_bench(CLI::App& program, Context& context);
void add_tune(CLI::App& program, Context& context);
void add_sweep(CLI::App& program, Context& context);
void add_compare(CLI::App& program, Context& context);
void add_report(CLI::App& program, Context& context);
void add_lr_find(CLI::App& program, Context& context);
void add_top(CLI::App& program, Context& context);
void add_checkpoint(CLI::App& program, Context& context);
void add_verify_resume(CLI::App& program, Context& context);
void add_data(CLI::App& program, Context& context);
void add_validate(CLI::App& program, Context& context);
void add_plan(CLI::App& program, Context& context);
void add_show_config(CLI::App& program, Context& context);
void add_schema(CLI::App& program, Context& context);
void add_explain(CLI::App& program, Context& context);
void add_list(CLI::App& program, Context& context);
void add_doctor(CLI::App& program, Context& context);
void add_completion(CLI::App& program, Context& context);
void add_version(CLI::App& program, Context& context);

// The verbs below `trainctl checkpoint`: ls and verify are in checkpoint.cpp, export and import in
// convert.cpp.
void add_checkpoint_inspect(CLI::App& checkpoint, Context& context);
void add_checkpoint_export(CLI::App& checkpoint, Context& context);
void add_checkpoint_import(CLI::App& checkpoint, Context& context);

// The verbs below `trainctl data`.
void add_data_bench(CLI::App& data, Context& context);
void add_data_show(CLI::App& data, Context& context);
void add_data_stats(CLI::App& data, Context& context);
void add_data_pack(CLI::App& data, Context& context);

}  // namespace trainctl::app
