// Starts Swagger UI. It is a file of its own because the page's Content-Security-Policy runs no script inside the page.
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
    tryItOutEnabled: true,
    persistAuthorization: false, // a token does not outlive the page
    validatorUrl: null, // nothing is sent to anybody else
  });
});
