//! temp
fn main() {
    for m in sutler_api::corpus::valid() {
        println!("{}", serde_json::json!({"valid": m.name, "object": m.object}));
    }
    for c in sutler_api::corpus::invalid() {
        println!(
            "{}",
            serde_json::json!({"name": c.name, "status": c.part == sutler_api::corpus::Part::Status, "before": c.before, "object": c.object, "field": c.field, "rule": c.rule.word(), "msg": format!("{:?}", c.rule)})
        );
    }
}
