// Starts Swagger UI. It is a file of its own because the page's Content-Security-Policy runs no script inside the page.
const methods = ["get", "post", "put", "patch", "delete"];

// One token is enough: whichever was given under Authorize goes with every request to this server that would have none.
const authorized = (request) => {
  const [token] = Object.values(window.ui?.authSelectors.authorized()?.toJS() ?? {});
  if (token && !request.headers.Authorization && new URL(request.url, location.href).origin === location.origin) {
    request.headers.Authorization = `Bearer ${token.value}`;
  }
  return request;
};

window.addEventListener("load", () => {
  window.ui = SwaggerUIBundle({
    url: "openapi.json",
    dom_id: "#swagger-ui",
    presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
    plugins: [SwaggerUIBundle.plugins.DownloadUrl],
    layout: "StandaloneLayout",
    deepLinking: true,
    showExtensions: true,
    showCommonExtensions: true,
    defaultModelsExpandDepth: -1,
    docExpansion: "list",
    tryItOutEnabled: false, // Execute is for whoever has pressed Try it out
    operationsSorter: (a, b) => methods.indexOf(a.get("method")) - methods.indexOf(b.get("method")),
    requestInterceptor: authorized,
    persistAuthorization: false, // a token does not outlive the page
    validatorUrl: null, // nothing is sent to anybody else
  });
});
