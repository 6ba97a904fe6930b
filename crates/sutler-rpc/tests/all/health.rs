//! gRPC's own health and reflection.

use std::sync::Arc;

use futures::{StreamExt as _, stream};
use sutler_sim::Settings;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

use crate::support::{Running, plain, sim};

async fn channel(server: &Running) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
    endpoint.connect().await.unwrap()
}

#[tokio::test]
async fn a_server_says_that_it_serves_and_what() {
    for extensions in [true, false] {
        let (server, there) = plain(Arc::new(sim(Settings::default())), extensions).await;
        assert_eq!(there.serving().await.unwrap(), Some(true));
        let mut health = HealthClient::new(channel(&server).await);
        let mut check = async |service: &str| {
            let request = HealthCheckRequest { service: service.to_owned() };
            health.check(request).await.map(|answer| answer.into_inner().status())
        };
        let base = check("provider.v1.Provider").await;
        assert_eq!(base.unwrap(), ServingStatus::Serving);
        let extended = check("sutler.provider.v1.Extensions").await;
        assert_eq!(extended.is_ok(), extensions);
    }
}

#[tokio::test]
async fn a_server_describes_itself() {
    let (server, _) = plain(Arc::new(sim(Settings::default())), true).await;
    let mut reflection = ServerReflectionClient::new(channel(&server).await);
    let ask =
        |request| ServerReflectionRequest { host: String::new(), message_request: Some(request) };
    let requests = [
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol("provider.v1.Provider".to_owned())),
    ];
    let answers = reflection.server_reflection_info(stream::iter(requests)).await.unwrap();
    let answers: Vec<_> = answers.into_inner().map(Result::unwrap).collect().await;
    let Some(MessageResponse::ListServicesResponse(services)) = &answers[0].message_response else {
        panic!("{answers:?}")
    };
    let names: Vec<&str> = services.service.iter().map(|service| service.name.as_str()).collect();
    assert!(names.contains(&"provider.v1.Provider"), "{names:?}");
    assert!(names.contains(&"sutler.provider.v1.Extensions"), "{names:?}");
    let Some(MessageResponse::FileDescriptorResponse(file)) = &answers[1].message_response else {
        panic!("{answers:?}")
    };
    assert!(!file.file_descriptor_proto.is_empty());
}
